package client

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/fault"
	"strait/plan/seal"
	"strait/plan/secret"
)

// What callers branch on, with errors.Is.
var (
	// ErrNoJob: there is no job of that id or prefix.
	ErrNoJob = errors.New("no such job")
	// ErrAmbiguous: several ids begin so.
	ErrAmbiguous = errors.New("ambiguous id")
	// ErrTaken: the id names another job, living or ended.
	ErrTaken = errors.New("job id is taken")
	// ErrEnded: the job has reached a terminal state, which nothing leaves.
	ErrEnded = errors.New("job has ended")
	// ErrNoLeader: no coordinator leads.
	ErrNoLeader = errors.New("no coordinator leads")
)

// MaxText is the size of the largest job text that is stored.
const MaxText = 8 << 20

// Client reads and writes the keys of one fleet. Safe for concurrent use.
type Client struct {
	store   *kv.Store
	tree    keys.Tree
	secrets Secrets
}

// Secrets say what Submit does with the secrets of a job.
type Secrets struct {
	Keys    *secret.Keyring // of the fleet; without one a job with a secret in plain text is refused
	Catalog seal.Catalog    // what plugins declare; nil: only keys named like secrets and the passwords of URLs count
	// AllowPlain stores the secrets of a job as they are where there is no key, and a text that cannot be read.
	AllowPlain bool
	Warn       func(*fault.Mistake) // told what stays in clear; nil: nobody
}

// New returns a client of the fleet below tree.
func New(store *kv.Store, tree keys.Tree) *Client { return &Client{store: store, tree: tree} }

// WithSecrets is the client with another treatment of secrets.
func (c *Client) WithSecrets(s Secrets) *Client {
	d := *c
	d.secrets = s
	return &d
}

// NewID makes a job id that is free by all odds.
func NewID() plan.JobID {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return plan.JobID(strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))[:10])
}

// Submit stores the spec under id, or under a new one where id is empty, and returns the id. Its secrets are sealed
// first (Secrets); variables and comments that only they needed are not stored. A text over 48 KiB goes
// into chunks. Submitting needs no coordinator: the job waits for one.
func (c *Client) Submit(ctx context.Context, spec record.Spec, id plan.JobID) (plan.JobID, error) {
	made := id == ""
	if made {
		id = NewID()
	}
	if err := plan.CheckName("job", string(id)); err != nil {
		return "", err
	}
	if len(spec.Text) > MaxText {
		return "", fmt.Errorf("job text of %d bytes: at most %d are stored; move data out of the job file", len(spec.Text), MaxText)
	}
	if err := c.seal(&spec); err != nil {
		return "", err
	}
	if len(spec.Text) > MaxText {
		return "", fmt.Errorf("job text of %d bytes with its secrets sealed: at most %d are stored; move data out of the job file", len(spec.Text), MaxText)
	}
	spec.Header = record.Head
	if spec.Submitted.IsZero() {
		spec.Submitted = time.Now().UTC()
	}
	if spec.Submitted = spec.Submitted.UTC(); spec.TextChunks == nil && len(spec.Text) > record.ChunkBytes {
		if err := c.putText(ctx, &spec, id); err != nil {
			return "", err
		}
	}
	value, err := record.Encode(&spec, nil)
	if err != nil {
		return "", err
	}
	key := c.tree.Job(id)
	_, err = c.store.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.Absent(key)}, Ops: []kv.Op{kv.Put(key, value)}})
	if errors.Is(err, kv.ErrUnknownOutcome) {
		// It may have happened. Read, then decide: the same value is ours.
		if e, rerr := c.store.Get(ctx, key); rerr == nil && e.Exists() && string(e.Value) == string(value) {
			return id, nil
		}
	}
	if errors.Is(err, kv.ErrConflict) {
		return "", fmt.Errorf("job %s: %w; choose another id, or leave it out to get a new one", id, ErrTaken)
	}
	if err != nil {
		return "", fmt.Errorf("submit job %s: %w", id, err)
	}
	return id, nil
}

// putText stores a large text as chunks. A half-written text means nothing until jobs/<job> names it.
func (c *Client) putText(ctx context.Context, spec *record.Spec, id plan.JobID) error {
	chunks, parts := record.Pack([]byte(spec.Text))
	job := c.tree.Job(id)
	const atOnce = 16
	for from := 0; from < len(parts); from += atOnce {
		t := kv.Txn{Guards: []kv.Guard{kv.Absent(job)}}
		for n := from; n < min(from+atOnce, len(parts)); n++ {
			t.Ops = append(t.Ops, kv.Put(c.tree.JobTextChunk(id, n), parts[n]))
		}
		_, err := c.store.Txn(ctx, t)
		if errors.Is(err, kv.ErrConflict) {
			return fmt.Errorf("job %s: %w; choose another id, or leave it out to get a new one", id, ErrTaken)
		}
		if err != nil {
			return fmt.Errorf("submit job %s: %w", id, err)
		}
	}
	spec.Text, spec.TextChunks = "", &chunks
	return nil
}

// Text is the job text of a spec, joined from its chunks where it has some.
func (c *Client) Text(ctx context.Context, id plan.JobID, spec *record.Spec) (string, error) {
	if spec.TextChunks == nil {
		return spec.Text, nil
	}
	data, err := c.unpack(ctx, c.tree.JobTextChunks(id), *spec.TextChunks)
	if err != nil {
		return "", fmt.Errorf("text of job %s: %w", id, err)
	}
	return string(data), nil
}

// Plan is the encoded physical plan of a job, nil where there is none yet.
func (c *Client) Plan(ctx context.Context, id plan.JobID) ([]byte, error) {
	e, err := c.store.Get(ctx, c.tree.Plan(id))
	if err != nil || !e.Exists() {
		return nil, err
	}
	head, err := record.Decode[record.PlanHead](e.Value)
	if err == nil {
		var data []byte
		if data, err = c.unpack(ctx, c.tree.PlanChunks(id), head.Chunks); err == nil {
			return data, nil
		}
	}
	return nil, fmt.Errorf("plan of job %s: %w", id, err)
}

func (c *Client) unpack(ctx context.Context, prefix string, chunks record.Chunks) ([]byte, error) {
	es, _, err := c.store.List(ctx, prefix, 0)
	if err != nil {
		return nil, err
	}
	parts := make([][]byte, 0, len(es))
	for _, e := range es[:min(len(es), chunks.Number)] { // more are leftovers of an earlier, longer one
		parts = append(parts, e.Value)
	}
	return record.Unpack(chunks, parts)
}

// Wish puts a word (record.WishCancelled, …) for a job and returns the mod revision that the status will show as
// observedWish once it is answered.
func (c *Client) Wish(ctx context.Context, id plan.JobID, word string) (int64, error) {
	if _, err := record.ParseWish([]byte(word)); err != nil {
		return 0, err
	}
	for {
		es, _, err := c.store.Read(ctx, c.tree.Job(id), c.tree.JobStatus(id), c.tree.Wish(id), c.tree.History(id))
		if err != nil {
			return 0, fmt.Errorf("wish for job %s: %w", id, err)
		}
		if h := decode[record.History](es[3]); h != nil && !es[0].Exists() && !es[1].Exists() {
			return 0, fmt.Errorf("job %s: %w: it is %s", id, ErrEnded, h.Phase)
		}
		if !es[0].Exists() {
			return 0, fmt.Errorf("job %s: %w", id, ErrNoJob)
		}
		if st, err := record.Decode[record.JobStatus](es[1].Value); err == nil && st.SpecCreated == es[0].CreateRev && st.Phase.Terminal() {
			return 0, fmt.Errorf("job %s: %w: it is %s", id, ErrEnded, st.Phase)
		}
		r, err := c.store.Txn(ctx, kv.Txn{
			Guards: []kv.Guard{kv.AtCreate(es[0].Key, es[0].CreateRev), kv.At(es[2])},
			Ops:    []kv.Op{kv.Put(es[2].Key, []byte(word))},
		})
		if errors.Is(err, kv.ErrConflict) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("wish for job %s: %w", id, err)
		}
		return r.Rev, nil
	}
}

// ResolveID finds the one job whose id is prefix or begins with it.
func (c *Client) ResolveID(ctx context.Context, prefix string) (plan.JobID, error) {
	ids, err := c.ids(ctx, prefix)
	if err != nil {
		return "", err
	}
	switch {
	case len(ids) == 0:
		return "", fmt.Errorf("job %s: %w; `stctl job list` shows all", prefix, ErrNoJob)
	case len(ids) == 1 || string(ids[0]) == prefix:
		return ids[0], nil
	}
	names := make([]string, 0, 5)
	for _, id := range ids[:min(len(ids), 5)] {
		names = append(names, string(id))
	}
	return "", fmt.Errorf("job %s: %w: %d jobs begin so: %s; write more of it", prefix, ErrAmbiguous, len(ids), strings.Join(names, ", "))
}

// ids lists the jobs with a spec, a status or a history whose id begins with prefix, sorted.
func (c *Client) ids(ctx context.Context, prefix string) ([]plan.JobID, error) {
	seen := map[plan.JobID]bool{}
	var rev int64
	for _, branch := range []string{c.tree.Jobs(), c.tree.JobStatuses(), c.tree.Histories()} {
		es, at, err := c.store.ListKeys(ctx, branch+prefix, rev)
		if err != nil {
			return nil, err
		}
		rev = at
		for _, e := range es {
			if p, ok := c.tree.Parse(e.Key); ok {
				seen[p.Job] = true
			}
		}
	}
	out := make([]plan.JobID, 0, len(seen))
	for id := range seen {
		out = append(out, id)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out, nil
}
