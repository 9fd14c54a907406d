package integration

import (
	"fmt"
	"strings"
	"testing"

	"strait/integration/harness"
)

// TestAssertJudgesOnceOverAllWorkers runs Assert at parallelism 1 and 4 on two workers: row counts are those of
// the whole job, and each kind of rule fails the job when it is broken.
func TestAssertJudgesOnceOverAllWorkers(t *testing.T) {
	f := harness.Start(t, harness.Options{Workers: 2, Slots: 2})
	job := func(parallelism int, rules string) string {
		return fmt.Sprintf(`
env { job.mode = "BATCH", parallelism = %d, job.retry.times = 0 }
source { FakeSource { row.num = 10, split.num = 2, seed = 1, int.min = 5, int.max = 9
  schema { table = "db.t", fields { id = int, name = string }, primaryKey { name = pk, columnNames = [id] } } } }
sink { Assert { rules { %s } } }
`, parallelism, rules)
	}
	for _, parallelism := range []int{1, 4} {
		rows := 10 * parallelism
		for _, c := range []struct {
			name, rules, broken string
		}{
			{"rows", fmt.Sprintf(`row_rules = [{rule_type = MIN_ROW, rule_value = %d}, {rule_type = MAX_ROW, rule_value = %d}]`, rows, rows), ""},
			{"min row", fmt.Sprintf(`row_rules = [{rule_type = MIN_ROW, rule_value = %d}]`, rows+1), "MIN_ROW"},
			{"max row", fmt.Sprintf(`row_rules = [{rule_type = MAX_ROW, rule_value = %d}]`, rows-1), "MAX_ROW"},
			{"field", `field_rules = [{field_name = id, field_type = int, field_value = [{rule_type = MIN, rule_value = 6}]}]`, "MIN"},
			{"catalog", `catalog_table_rule { primary_key_rule { primary_key_name = pk, primary_key_columns = [name] } }`, "primary"},
		} {
			t.Run(fmt.Sprintf("%s at %d", c.name, parallelism), func(t *testing.T) {
				r := f.Stctl("job", "submit", writeJob(t, f.Dir, job(parallelism, c.rules)))
				want := 0
				if c.broken != "" {
					want = 1
				}
				if r.Code != want || !strings.Contains(strings.ToLower(r.Stderr), strings.ToLower(c.broken)) {
					t.Errorf("exit %d, want %d and a word of %q\n%s", r.Code, want, c.broken, r.Stderr)
				}
			})
		}
	}
}
