package storage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	"strait/checkpoint"
	"strait/plan"
)

// InlineBelow is the size under which a worker carries its state file inside the ack.
const InlineBelow = 8 << 10

// StateName names the state file of one worker. job is the job id plus the create revision of its spec.
func StateName(job string, p plan.PipelineID, n plan.CheckpointID, a plan.Attempt, worker string, incarnation int64) string {
	return fmt.Sprintf("%s/%d/%012d/state-a%d-%s-%d", job, p, n, a, worker, incarnation)
}

// ManifestName names the manifest of a checkpoint. leader is the create revision of the leadership that publishes
// it: two leaders that complete the same checkpoint do not meet, and only one of them wins the commit point.
func ManifestName(job string, p plan.PipelineID, n plan.CheckpointID, a plan.Attempt, leader int64) string {
	return fmt.Sprintf("%s/%d/%012d/manifest-a%d-l%d", job, p, n, a, leader)
}

// Inline is a handle that carries data itself, as small state files do.
func Inline(data []byte) checkpoint.Handle {
	if data == nil {
		data = []byte{}
	}
	return checkpoint.Handle{Inline: data, Size: int64(len(data)), SHA256: sum(data)}
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// tempPrefix begins the names of files that are being written.
const tempPrefix = ".tmp-"

// checkName refuses what would leave the folder or meet our own temporary files.
func checkName(name string) error {
	bad := func(why string) error {
		return fmt.Errorf("checkpoint storage: name %q %s; use relative names of letters, digits, '.', '-', '_' and '/'", name, why)
	}
	switch {
	case name == "":
		return bad("is empty")
	case len(name) > 1024:
		return bad("is over 1024 bytes")
	case path.Clean(name) != name || strings.HasPrefix(name, "/") || name == ".":
		return bad("is not a plain relative name")
	}
	for _, part := range strings.Split(name, "/") {
		if part == ".." || strings.HasPrefix(part, ".") {
			return bad("has a part that begins with '.'")
		}
		if len(part) > 255 {
			return bad("has a part over 255 bytes")
		}
	}
	for _, c := range name {
		if c < ' ' || c == '\\' || c == 0x7f {
			return bad("has a character that is not allowed")
		}
	}
	return nil
}
