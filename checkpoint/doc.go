// Package checkpoint names what a checkpoint is made of: kinds, barriers, handles of state files, prepared
// commits. How one is taken lives in the children: protocol (pure decisions), driver (one pipeline's loop on
// the leader), align (barriers over several inputs), storage (state files).
package checkpoint
