package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"time"

	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
	"strait/worker/format/csv"
	"strait/worker/format/field"
	"strait/worker/format/text"
)

// input is one table of a source: where its files are and how they are read.
type input struct {
	fs      FS
	index   int
	at      string // option path
	pos     fault.Position
	path    string
	format  string
	content bool // no schema: every line is the column content
	given   *schema.Table
	table   *schema.Table // as handed on: read columns, then partition columns
	first   string        // parquet: the file whose columns were looked at
	cols    []string      // read columns, by the names they have in the files
	formats *field.Formats
	csv     csv.Options
	header  bool
	skip    int64

	partitions bool
	keep       []string // read_partitions
	pattern    *regexp.Regexp
	ext        string
	from, to   time.Time
	recursive  bool
	byTime     bool
	split      bool
	splitSize  int64
}

// contentColumn is the only column of files without a schema.
const contentColumn = "content"

// newInput reads the options of one table. Mistakes go to l, a value of a later build is the error.
func newInput(f FS, folder string, v option.Values, index int, l *fault.List) (*input, error) {
	in := &input{fs: f, index: index, at: v.Path(""), pos: posOf(v, "path"), format: v.String("file_format_type"),
		formats: formatsOf(v, l), header: v.Bool("csv_use_header_line"), skip: v.Int("skip_header_row_number"),
		partitions: v.Bool("parse_partition_from_path"), keep: v.Strings("read_partitions"),
		ext: strings.TrimPrefix(v.String("filename_extension"), "."), recursive: v.Bool("recursive_file_scan"),
		byTime: v.Bool("sort_files_by_modification_time"), split: v.Bool("enable_file_split"), splitSize: v.Int("file_split_size")}
	if err := checkBuilt(v); err != nil {
		return nil, err
	}
	if c := v.String("archive_compress_codec"); c != "none" {
		return nil, notInBuild(v, "archive_compress_codec", "write none", "archive format %s", c)
	}
	if m := v.String("discovery_mode"); m != "once" {
		return nil, notInBuild(v, "discovery_mode", "write once", "discovery_mode %s", m)
	}
	if m := v.String("sync_mode"); m != "full" {
		return nil, notInBuild(v, "sync_mode", "write full", "sync_mode %s", m)
	}
	path, err := absolute(folder, v.String("path"))
	if err != nil {
		l.Add(posOf(v, "path"), v.Path("path"), err.Error(), "write the path of a file or folder")
	}
	in.path = path
	in.filters(v, l)
	in.delimiters(v, l)
	in.schema(v, l)
	return in, nil
}

// absolute makes a path of a job file absolute: a relative one starts in folder, or where this process runs.
// file:///x is x.
func absolute(folder, p string) (string, error) {
	p = strings.TrimSpace(p)
	if rest, ok := strings.CutPrefix(p, "file://"); ok {
		p = rest
	}
	if p == "" {
		return "", errors.New("the path is empty")
	}
	if folder != "" && !filepath.IsAbs(p) {
		p = filepath.Join(folder, p)
	}
	return filepath.Abs(p)
}

func (in *input) filters(v option.Values, l *fault.List) {
	if p := v.String("file_filter_pattern"); p != "" {
		re, err := regexp.Compile("^(?:" + p + ")$")
		if err != nil {
			l.Add(posOf(v, "file_filter_pattern"), v.Path("file_filter_pattern"), "the regular expression does not compile: "+err.Error(), "look-around and back references are not known here")
		}
		in.pattern = re
	}
	for name, at := range map[string]*time.Time{"file_filter_modified_start": &in.from, "file_filter_modified_end": &in.to} {
		s := v.String(name)
		if s == "" {
			continue
		}
		t, err := time.ParseInLocation("2006-01-02 15:04:05", s, time.Local)
		if err != nil {
			l.Add(posOf(v, name), v.Path(name), fmt.Sprintf("%q is not a time", s), "write yyyy-MM-dd HH:mm:ss")
		}
		*at = t
	}
}

func (in *input) delimiters(v option.Values, l *fault.List) {
	o := csv.Options{Formats: in.formats, Null: v.String("null_format"), HasNull: v.Has("null_format"), RowDelimiter: v.String("row_delimiter")}
	o.Delimiter = text.DefaultDelimiter
	if in.format == formatCSV {
		o.Delimiter = ","
		o.Quote, o.Escape = oneByte(v, "quote_char", l), oneByte(v, "escape_char", l)
	}
	if v.Has("field_delimiter") {
		d, err := text.Delimiter(v.String("field_delimiter"))
		if err != nil {
			l.Add(posOf(v, "field_delimiter"), v.Path("field_delimiter"), err.Error(), `write the text between two fields, such as ";"`)
		} else if d == "" {
			l.Add(posOf(v, "field_delimiter"), v.Path("field_delimiter"), "the delimiter is empty", `write the text between two fields, such as ";"`)
		}
		o.Delimiter = d
	}
	if o.RowDelimiter == "\r\n" { // a line feed alone ends a row, too
		o.RowDelimiter = ""
	}
	if v.Has("row_delimiter") && v.String("row_delimiter") == "" {
		l.Add(posOf(v, "row_delimiter"), v.Path("row_delimiter"), "the row delimiter is empty", `write "\n"`)
	}
	if err := o.Check(); err != nil && (in.format == formatCSV || in.format == formatText) {
		l.Add(posOf(v, "field_delimiter"), v.Path("field_delimiter"), err.Error(), "choose another delimiter")
	}
	if in.format == formatText {
		o.Ragged = true
	}
	in.csv = o
	if in.header && in.format != formatCSV {
		in.header = false
	}
}

// schema reads the schema block and read_columns. What the files themselves say comes with learn.
func (in *input) schema(v option.Values, l *fault.List) {
	node := v.Node("schema")
	if node != nil && node.Kind == option.Null {
		node = nil
	}
	given := &schema.Table{}
	if node != nil && (hasFields(node.Child("fields")) || hasFields(node.Child("columns"))) {
		before := l.Len()
		given = schema.Parse(node, v.Path("schema"), l)
		if l.Len() > before {
			return
		}
	} else if node != nil { // a name only, or nothing
		b := schema.Block.Decode(node, v.Path("schema"), l)
		if b.Has("table") {
			given.Path = schema.ParsePath(b.String("table"))
		}
	}
	read := v.Strings("read_columns")
	if len(given.Columns) == 0 && in.format != formatParquet {
		in.content = true
		given.Columns = []schema.Column{schema.Col(contentColumn, schema.Of(schema.String))}
		if len(read) > 0 {
			l.Add(posOf(v, "read_columns"), v.Path("read_columns"), "columns cannot be chosen without a schema", "add schema { fields { … } }")
			return
		}
	}
	in.given, in.cols = given, read
	if len(given.Columns) > 0 {
		in.table = in.project(given, l, v.Path("read_columns"), posOf(v, "read_columns"))
	}
}

func hasFields(n *option.Node) bool {
	return n != nil && (len(n.Fields) > 0 || len(n.List) > 0)
}

// project chooses the read columns of a table, all when none are named.
func (in *input) project(t *schema.Table, l *fault.List, at string, pos fault.Position) *schema.Table {
	if len(in.cols) == 0 {
		in.cols = t.Names()
		return t
	}
	out := t.Clone()
	out.Columns = nil
	for _, name := range in.cols {
		i := t.Index(name)
		if i < 0 {
			remedy := "the columns are " + strings.Join(t.Names(), ", ")
			if near := option.Nearest(name, t.Names()); near != "" {
				remedy = fmt.Sprintf("did you mean %q?", near)
			}
			l.Add(pos, at, fmt.Sprintf("there is no column %q", name), remedy)
			continue
		}
		if out.Index(name) >= 0 {
			l.Add(pos, at, fmt.Sprintf("column %q stands twice", name), "remove one of them")
			continue
		}
		out.Columns = append(out.Columns, t.Columns[i])
	}
	in.cols = out.Names()
	keepKeys(out)
	return out
}

// keepKeys drops keys with columns that are not read.
func keepKeys(t *schema.Table) {
	if pk := t.PrimaryKey; pk != nil {
		for _, c := range pk.Columns {
			if t.Index(c) < 0 {
				t.PrimaryKey = nil
				break
			}
		}
	}
	kept := t.Constraints[:0]
	for _, c := range t.Constraints {
		ok := true
		for _, col := range c.Columns {
			ok = ok && t.Index(col.Name) >= 0
		}
		if ok {
			kept = append(kept, c)
		}
	}
	t.Constraints = kept
}

var errFound = errors.New("found")

// learn looks at the first file: for the columns of its folders and, for parquet, its own.
func (in *input) learn(ctx context.Context, l *fault.List) error {
	first := ""
	err := in.files(ctx, func(name string, _ Info) error {
		first = name
		return errFound
	})
	if err != nil && !errors.Is(err, errFound) {
		return in.pathError(err)
	}
	if in.format == formatParquet {
		if err := in.learnParquet(ctx, first, l); err != nil {
			return err
		}
	}
	if first == "" || !in.partitions || in.table == nil {
		return nil
	}
	var added []schema.Column
	for _, p := range partitionsOf(first) {
		if in.table.Index(p.key) < 0 {
			added = append(added, schema.Col(p.key, schema.Of(schema.String)))
		}
	}
	if len(added) > 0 {
		t := in.table.Clone()
		t.Columns = append(t.Columns, added...)
		for _, c := range added {
			t.Partition = append(t.Partition, c.Name)
		}
		in.table = t
	}
	return nil
}

func (in *input) pathError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &fault.Mistake{Pos: in.pos, Path: in.at + ": path", Found: in.path + " does not exist on this host", Remedy: "write the path of a file or folder that every worker sees"}
	case errors.Is(err, fs.ErrPermission):
		return &fault.Mistake{Pos: in.pos, Path: in.at + ": path", Found: fmt.Sprintf("%s: %v", in.path, because(in.path, err)), Remedy: "give the user of the worker the right to read it"}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%s: list %s: %w", in.at, in.path, err)
}

// files visits the files of the table in order: by path, folder by folder. Hidden files, _SUCCESS and empty files
// are left out, as in SeaTunnel, and so are hidden folders.
func (in *input) files(ctx context.Context, visit func(string, Info) error) error {
	if !in.byTime {
		return in.walk(ctx, visit)
	}
	type entry struct {
		name string
		i    Info
	}
	var all []entry
	if err := in.walk(ctx, func(name string, i Info) error {
		all = append(all, entry{name, i})
		return nil
	}); err != nil {
		return err
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].i.ModTime.Before(all[j].i.ModTime) })
	for _, e := range all {
		if err := visit(e.name, e.i); err != nil {
			return err
		}
	}
	return nil
}

func (in *input) walk(ctx context.Context, visit func(string, Info) error) error {
	return walk(ctx, in.fs, in.path, func(name string, i Info) error {
		if in.wanted(name, i) {
			return visit(name, i)
		}
		return nil
	})
}

func (in *input) wanted(name string, i Info) bool {
	base := filepath.Base(name)
	if i.Size == 0 || strings.HasPrefix(base, ".") || base == "_SUCCESS" {
		return false
	}
	if rel, err := filepath.Rel(in.path, name); err == nil && rel != "." {
		dir := filepath.Dir(rel)
		if !in.recursive && dir != "." {
			return false
		}
		if strings.HasPrefix(dir, ".") && dir != "." || strings.Contains(dir, "/.") {
			return false
		}
	}
	if in.ext != "" && !strings.HasSuffix(base, "."+in.ext) {
		return false
	}
	if in.pattern != nil && !in.pattern.MatchString(base) && !in.pattern.MatchString(name) {
		return false
	}
	if !in.from.IsZero() && i.ModTime.Before(in.from) || !in.to.IsZero() && !i.ModTime.Before(in.to) {
		return false
	}
	if len(in.keep) == 0 {
		return true
	}
	for _, k := range in.keep {
		if strings.Contains(name, k) {
			return true
		}
	}
	return false
}
