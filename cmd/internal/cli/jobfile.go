package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"strait/kv/record"
	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/physical"
)

// planWithin bounds planning: a source that looks at its files or its server must answer meanwhile.
const planWithin = time.Minute

// jobFlags are those of every command that reads a job file.
func jobFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "variable", Aliases: []string{"i"}, Usage: "value of a ${variable} in the job file, `KEY=VALUE`; may be repeated"},
		&cli.IntFlag{Name: "parallelism", Usage: "instead of env.parallelism"},
		&cli.StringFlag{Name: "name", Usage: "instead of env.job.name"},
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
}

// maxJobFile is read before the parser refuses a file for its size.
const maxJobFile = 8<<20 + 1

// readJobFile reads the one file a command is given.
func readJobFile(c *cli.Context) (*jobFile, error) {
	if c.NArg() != 1 {
		return nil, failf("%s takes one job file, it got %d: %s", c.Command.HelpName, c.NArg(), strings.Join(c.Args().Slice(), " "))
	}
	j := &jobFile{path: c.Args().First(), variables: map[string]string{}, parallelism: c.Int("parallelism"), name: c.String("name")}
	if c.IsSet("parallelism") && j.parallelism < 1 {
		return nil, failf("--parallelism %d: write a number from 1 on", j.parallelism)
	}
	last := ""
	for _, kv := range c.StringSlice("variable") {
		k, v, ok := strings.Cut(kv, "=")
		switch {
		case !ok && last != "": // -i a=1,2 arrives in pieces: the rest of a value with a comma in it
			j.variables[last] += "," + kv
			continue
		case !ok && c.Command.Name == "check": // the value is not known yet
			continue
		case !ok || k == "":
			return nil, failf("-i %s: write -i KEY=VALUE", kv)
		}
		j.variables[k], last = v, k
	}
	var err error
	if j.folder, err = os.Getwd(); err != nil {
		return nil, fmt.Errorf("find the working folder: %w", err)
	}
	f, err := os.Open(j.path)
	if err != nil {
		return nil, failf("job file: %v", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, failf("job file %s is a folder; name the file", j.path)
	}
	if j.text, err = io.ReadAll(io.LimitReader(f, maxJobFile)); err != nil {
		return nil, failf("job file: %v", err)
	}
	return j, nil
}

// parse gives the job; warnings go to stderr.
func (j *jobFile) parse() (*config.Job, []*fault.Mistake, error) {
	return config.Parse(j.text, config.Options{File: j.path, Vars: j.variables, Env: os.LookupEnv})
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
	dag, more, err := logical.Build(ctx, job, catalog{folder: j.folder}, j.overrides())
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

// warn prints warnings, one a line.
func warn(w io.Writer, warnings []*fault.Mistake) {
	for _, m := range warnings {
		fmt.Fprintf(w, "warning: %v\n", m)
	}
}
