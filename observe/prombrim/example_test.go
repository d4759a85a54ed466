package prombrim_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/observe/prombrim"
)

// The label limit has the names of Options.Limits. No key is a label.
func ExampleNew() {
	calls := brim.Over(2, time.Hour)
	registry := prometheus.NewRegistry()
	hooks, err := prombrim.New(registry, &prombrim.Options{Limits: map[string]brim.Limit{"calls": calls}})
	if err != nil {
		log.Fatal(err)
	}
	db := memory.New(nil)
	s, err := observe.New(db, hooks, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close() // closes db, too
	limiter := brim.New(s, nil)
	for range 3 {
		if _, err := limiter.TryFillup(context.Background(), calls.For("user:42"), 1); err != nil {
			log.Fatal(err)
		}
	}

	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "brim_decisions_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetCounter().GetValue() == 0 {
				continue
			}
			for _, label := range m.GetLabel() {
				fmt.Print(label.GetName(), "=", label.GetValue(), " ")
			}
			fmt.Println(m.GetCounter().GetValue())
		}
	}
	// Output:
	// limit=calls outcome=accepted 2
	// limit=calls outcome=refused 1
}
