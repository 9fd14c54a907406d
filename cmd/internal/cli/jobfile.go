package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"strait/coordinator/api/client"
	"strait/kv/record"
	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/physical"
	"strait/plan/seal"
	"strait/plan/secret"
	"strait/worker/secrets"
)

// planWithin bounds planning: a source that looks at its files or its server must answer meanwhile.
const planWithin = time.Minute

// jobFlags are those of every command that reads a job file.
func jobFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "variable", Aliases: []string{"i"}, Usage: "`KEY=VALUE` of a ${variable} in the job file; may be repeated"},
		&cli.IntFlag{Name: "parallelism", Usage: "`N` instead of env.parallelism"},
		&cli.StringFlag{Name: "name", Usage: "`NAME` of the job instead of env.job.name"},
	}
}

// jobFile is a job file that was read, with what the flags say.
type jobFile struct {
	path        string
	text        []byte
	variables   map[string]string
	parallelism int
	name        string
	folder      string
	keys        *secret.Keyring  // to open sealed options while planning; nil: none
	scrub       secrets.Scrubber // of the secrets the file holds in clear, once it is parsed
}

// maxJobFile is what the parser takes.
const maxJobFile = 8 << 20

// readJobFile reads the one file a command is given.
func readJobFile(c *cli.Context) (*jobFile, error) {
	switch c.NArg() {
	case 0:
		return nil, failf("the job file is missing; write %s FILE", c.Command.HelpName)
	case 1:
	default:
		return nil, failf("%s takes one job file, it got %d: %s", c.Command.HelpName, c.NArg(), strings.Join(c.Args().Slice(), " "))
	}
	j := &jobFile{path: c.Args().First(), parallelism: c.Int("parallelism"), name: c.String("name")}
	if c.IsSet("parallelism") && j.parallelism < 1 {
		return nil, failf("--parallelism %d: write a number from 1 on", j.parallelism)
	}
	var bare func(string) error
	if c.Command.Name == "check" { // the value is not known yet
		bare = func(string) error { return nil }
	}
	var err error
	if j.variables, err = pairs("-i", "KEY=VALUE", c.StringSlice("variable"), bare); err != nil {
		return nil, err
	}
	if j.folder, err = os.Getwd(); err != nil {
		return nil, fmt.Errorf("find the working folder: %w", err)
	}
	j.text, err = readText(j.path)
	return j, err
}

func readText(path string) ([]byte, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, failf("job file %s does not exist", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, failf("job file %s may not be read by this user; give it the right to", path)
	case err != nil:
		return nil, failf("job file %s: %v", path, cause(err))
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, failf("job file %s: %v", path, cause(err))
	case info.IsDir():
		return nil, failf("job file %s is a folder; name the file", path)
	case info.Size() > maxJobFile:
		return nil, failf("%s: the file has %d bytes; a job file has at most %d (8 MiB)", path, info.Size(), maxJobFile)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxJobFile+1))
	switch {
	case err != nil:
		return nil, failf("job file %s: %v", path, cause(err))
	case len(text) > maxJobFile: // a pipe or a device
		return nil, failf("%s: it has more than %d bytes (8 MiB), the most a job file may have", path, maxJobFile)
	}
	return text, nil
}

// cause is the reason of a file's error without the call and the path, which the message has already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// parse gives the job; warnings go to stderr.
func (j *jobFile) parse() (*config.Job, []*fault.Mistake, error) {
	job, warnings, err := config.Parse(j.text, config.Options{File: j.path, Vars: j.variables, Env: os.LookupEnv})
	if err == nil {
		j.scrub.Add(seal.Values(job, j.catalog())...)
	}
	return job, warnings, err
}

func (j *jobFile) catalog() logical.Catalog { return catalog{folder: j.folder, keys: j.keys} }

// check looks at the job as far as that needs no data.
func (j *jobFile) check(ctx context.Context, job *config.Job, strict bool) ([]*fault.Mistake, error) {
	return j.clean(logical.Check(ctx, job, j.catalog(), strict))
}

// clean takes the secrets of the file out of what is told about it.
func (j *jobFile) clean(warnings []*fault.Mistake, err error) ([]*fault.Mistake, error) {
	for i, m := range warnings {
		warnings[i] = j.scrub.Mistake(m)
	}
	return warnings, j.scrub.Clean(err)
}

func (j *jobFile) overrides() logical.Overrides {
	return logical.Overrides{Parallelism: j.parallelism, Name: j.name}
}

// plan parses and plans the job as the leader will; every mistake comes at once.
func (j *jobFile) plan(ctx context.Context) (*config.Job, *logical.Dag, *physical.Plan, []*fault.Mistake, error) {
	job, warnings, err := j.parse()
	if err != nil {
		return nil, nil, nil, warnings, err
	}
	ctx, cancel := context.WithTimeout(ctx, planWithin)
	defer cancel()
	dag, more, err := logical.Build(ctx, job, j.catalog(), j.overrides())
	more, err = j.clean(more, err)
	warnings = append(warnings, more...)
	if err != nil {
		return job, nil, nil, warnings, err
	}
	p, err := physical.Build(dag)
	return job, dag, p, warnings, err
}

// spec is what is submitted: the text as it is, with every variable it was given and every environment
// variable it asked for, so that the leader reads the same job.
func (j *jobFile) spec(job *config.Job, labels map[string]string) record.Spec {
	return record.Spec{
		Name: j.name, File: filepath.Base(j.path), Text: string(j.text), Variables: j.variables, Environment: job.EnvUsed,
		Parallelism: j.parallelism, Labels: labels, Folder: j.folder, Submitted: time.Now().UTC(),
	}
}

// secrets say how the job is sealed when it is stored.
func (j *jobFile) secrets(c *cli.Context, keys *secret.Keyring, plain bool) client.Secrets {
	return client.Secrets{Keys: keys, Catalog: j.catalog(), AllowPlain: plain, Warn: func(m *fault.Mistake) { warn(c.App.ErrWriter, []*fault.Mistake{m}) }}
}

// warn prints warnings, one a line.
func warn(w io.Writer, warnings []*fault.Mistake) {
	for _, m := range warnings {
		fmt.Fprintf(w, "warning: %v\n", m)
	}
}
