module github.com/brimgo/brim/httplimit/sfvtest

go 1.26.0

require github.com/brimgo/brim v0.0.0

require github.com/dunglas/httpsfv v1.1.2

replace github.com/brimgo/brim => ../../
