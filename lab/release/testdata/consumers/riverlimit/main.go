// Command consumer limits the jobs of River, as a program outside of this repository does.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river/rivertype"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/riverlimit"
)

func main() {
	limit := riverlimit.New(brim.New(memory.New(nil), nil), riverlimit.PerKind(brim.Over(5, time.Minute)), nil)
	err := limit.Work(context.Background(), &rivertype.JobRow{Kind: "letter"}, func(context.Context) error { return nil })
	fmt.Println("accepted:", err == nil)
}
