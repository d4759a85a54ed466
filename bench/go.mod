module github.com/brimgo/brim/bench

go 1.26.0

require github.com/brimgo/brim v0.0.0

require golang.org/x/time v0.16.0

replace github.com/brimgo/brim => ../
