// Command consumer limits the calls of a gRPC server, as a program outside of this repository does.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"google.golang.org/grpc"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/grpclimit"
	"github.com/brimgo/brim/memory"
)

func main() {
	buckets := memory.New(nil)
	limit, err := grpclimit.NewServer(brim.New(buckets, nil), grpclimit.PerClient("api", brim.Over(5, time.Minute)), nil)
	if err != nil {
		log.Fatal(err)
	}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	_, err = limit.Unary(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: "/shop.Orders/Put"}, handler)
	fmt.Println("accepted:", err == nil)
}
