package sched

import "github.com/brimgo/brim/lab/internal/weave"

// subjectPackages are the packages of the subjects, with the defects that tests switch on.
func subjectPackages() []weave.Package {
	return []weave.Package{
		{
			Dir: "internal/combine", Files: []string{"combine.go", "lane.go"},
			Edits: append(combineDefects, weave.Edit{
				File: "lane.go", Old: "patience = 16", New: "patience = 2", // each round is a point
			}),
		},
		{
			Dir: "bolt", Files: []string{"relaxed.go", "relaxed_write.go", "resident.go", "journal.go", "journal_write.go", "backup.go", "flush.go", "store.go"},
			Edits: append(relaxedDefects,
				weave.Edit{ // no caller of a relaxed store stops waiting for this
					File: "resident.go",
					Old:  "\tselect {\n\tcase t <- struct{}{}:\n\t\treturn nil\n\tcase <-ctx.Done():\n\t\treturn ctx.Err()\n\t}\n",
					New:  "\tt <- struct{}{}\n\treturn nil\n",
				},
				weave.Edit{
					File: "resident.go", Old: "sectionCount = 256", New: "sectionCount = 2", // each is a point
				},
				weave.Edit{
					File: "resident.go", Old: "range p.buckets", New: "range weft.Sorted(p.buckets)",
				},
			),
		},
		{
			Dir: "local",
			Files: []string{
				"local.go", "table.go", "refusals.go", "cache.go", "snapshot.go", "leases.go", "account.go", "allotment.go",
			},
			Edits: append(leaseDefects, refusalsDefects...),
		},
		{Dir: "queue", Files: []string{"queue.go"}, Edits: queueDefects},
		{Dir: ".", Files: []string{"shaper.go"}, Long: []string{"mu"}, Edits: shaperDefects},
	}
}
