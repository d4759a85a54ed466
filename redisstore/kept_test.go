package redisstore

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/kept"
	"github.com/brimgo/brim/internal/redistest"
)

var update = flag.Bool("update", false, "write testdata/buckets1.json anew")

// TestBucketsOfEarlierVersions reads the keys of the first version, and goes on with them. Users
// have such keys, so neither their names nor their texts can ever change.
func TestBucketsOfEarlierVersions(t *testing.T) {
	const sample = "testdata/buckets1.json"
	client := redistest.Client(t)
	prefix := redistest.Prefix(t, client)
	clock := brimtest.NewClock(kept.End())
	s := open(t, client, &Options{Prefix: prefix, Clock: clock.Now})
	if *update {
		must(t, kept.Fill(t.Context(), s))
		texts := make(map[string]string)
		for _, key := range client.Keys(t.Context(), prefix+"*").Val() {
			texts[key[len(prefix):]] = client.Get(t.Context(), key).Val()
		}
		file, err := json.MarshalIndent(texts, "", "\t")
		must(t, err)
		must(t, os.WriteFile(sample, append(file, '\n'), 0o600))
		t.Logf("%s has %d keys", sample, len(texts))
	}
	file, err := os.ReadFile(sample)
	must(t, err)
	var texts map[string]string
	must(t, json.Unmarshal(file, &texts))
	for key, text := range texts {
		must(t, client.Set(t.Context(), prefix+key, text, 0).Err())
	}
	kept.CompareBuckets(t, s, clock)
}
