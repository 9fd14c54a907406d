package record

import (
	"strconv"

	"strait/plan"
)

// JobLife names one life of a job id: the id and the create revision of its spec. Commit ids, state files and
// manifests bear it, so that an id used again never meets its predecessor. Job ids have no dot.
func JobLife(job plan.JobID, specCreated int64) string {
	return string(job) + "." + strconv.FormatInt(specCreated, 10)
}
