module github.com/brimgo/brim/torture

go 1.26.0

require github.com/brimgo/brim v0.0.0

require (
	go.etcd.io/bbolt v1.5.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
)

replace github.com/brimgo/brim => ../
