package file

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
	"strait/worker/connector"
	"strait/worker/format"
	"strait/worker/format/csv"
	"strait/worker/format/field"
	jsonformat "strait/worker/format/json"
	"strait/worker/format/parquet"
	"strait/worker/format/text"
)

func init() {
	connector.RegisterSink(connector.SinkFactory{
		Name:    "LocalFile",
		Doc:     "Writes files to a folder on the worker's host, or on a file system that all workers see: text, csv, JSON lines and parquet.",
		Options: sinkSpec(),
		Claims:  []string{string(connector.ExactlyOnce), "several tables", "bound to the host unless all workers see the folder"},
		New: func(ctx context.Context, c connector.SinkConfig) (connector.Sink, error) {
			return newSink(ctx, local{}, c)
		},
	})
}

// sink is a configured file sink. transactional adds the committer.
type sink struct {
	fs        FS
	tmp       string
	folder    string    // where relative paths start
	outputs   []*output // by table index
	names     namer
	tx        bool
	batchSize int
	empty     bool
}

type transactional struct{ *sink }

// output is how one table is written.
type output struct {
	table   *schema.Table
	dir     string
	format  string
	columns []int // written
	by      []int // partition columns
	dirExpr string
	encoder func() (format.Encoder, error)
	parquet *parquet.Layout
}

func newSink(_ context.Context, f FS, c connector.SinkConfig) (connector.Sink, error) {
	v := c.Options
	if err := checkSinkBuilt(v); err != nil {
		return nil, err
	}
	var l fault.List
	s := &sink{fs: f, folder: c.Folder, tx: v.Bool("is_enable_transaction"), batchSize: int(v.Int("batch_size")), empty: v.Bool("create_empty_file_when_no_data")}
	tmp, err := absolute(c.Folder, v.String("tmp_path"))
	if err != nil {
		l.Add(posOf(v, "tmp_path"), v.Path("tmp_path"), err.Error(), "write the path of a folder")
	}
	s.tmp = tmp
	s.naming(v, &l)
	formats := formatsOf(v, &l)
	for _, t := range c.Tables {
		s.outputs = append(s.outputs, s.output(v, t, formats, &l))
	}
	if len(c.Tables) == 0 {
		if _, err := absolute(c.Folder, v.String("path")); err != nil {
			l.Add(posOf(v, "path"), v.Path("path"), err.Error(), "write the path of a folder")
		}
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	if !s.tx {
		return s, nil
	}
	return transactional{s}, nil
}

func checkSinkBuilt(v option.Values) error {
	if err := checkBuilt(v); err != nil {
		return err
	}
	if c := v.String("compress_codec"); c == "lzo" || c == "zlib" {
		return notInBuild(v, "compress_codec", "write none, snappy, gzip, zstd, lz4 or brotli", "compression %s", c)
	}
	if m := v.String("schema_save_mode"); m != "CREATE_SCHEMA_WHEN_NOT_EXIST" && m != "IGNORE" {
		return notInBuild(v, "schema_save_mode", "write CREATE_SCHEMA_WHEN_NOT_EXIST or IGNORE", "schema_save_mode %s", m)
	}
	if m := v.String("data_save_mode"); m != "APPEND_DATA" {
		return notInBuild(v, "data_save_mode", "write APPEND_DATA", "data_save_mode %s", m)
	}
	if len(v.Strings("parquet_avro_write_fixed_as_int96")) > 0 && v.String("file_format_type") == formatParquet {
		return notInBuild(v, "parquet_avro_write_fixed_as_int96", "leave the option out", "writing byte columns as INT96")
	}
	return nil
}

var extensions = map[string]string{formatText: ".txt", formatCSV: ".csv", formatJSON: ".json", formatParquet: ".parquet"}

var codecExtensions = map[string]string{"none": "", "snappy": ".snappy", "lz4": ".lz4", "gzip": ".gz", "brotli": ".br", "zstd": ".zstd"}

func (s *sink) naming(v option.Values, l *fault.List) {
	n := namer{expression: v.String("file_name_expression"), single: v.Bool("single_file_mode")}
	if strings.TrimSpace(n.expression) == "" || v.Has("custom_filename") && !v.Bool("custom_filename") {
		n.expression = "${transactionId}"
	}
	if s.tx && !strings.Contains(n.expression, "${transactionId}") {
		n.expression = "${transactionId}_" + n.expression
	}
	if strings.ContainsAny(n.expression, "/\\\x00") {
		l.Add(posOf(v, "file_name_expression"), v.Path("file_name_expression"), "a file name holds a slash", "use partition_by for folders")
	}
	var err error
	if n.now, err = field.ParsePattern(v.String("filename_time_format")); err != nil {
		l.Add(posOf(v, "filename_time_format"), v.Path("filename_time_format"), err.Error(), "write a Java pattern such as yyyy.MM.dd")
	}
	n.extension = codecExtensions[v.String("compress_codec")] + extensions[v.String("file_format_type")]
	if e := v.String("filename_extension"); e != "" {
		n.extension = "." + strings.TrimPrefix(e, ".")
	}
	if n.single {
		s.batchSize = 1 << 62
	}
	s.names = n
}

func (s *sink) output(v option.Values, t *schema.Table, formats *field.Formats, l *fault.List) *output {
	o := &output{table: t, format: v.String("file_format_type")}
	path := strings.TrimSpace(v.String("path"))
	dir, err := absolute(s.folder, expandTable(path, t))
	if err != nil {
		l.Add(posOf(v, "path"), v.Path("path"), err.Error(), "write the path of a folder")
	}
	o.dir = dir
	find := func(option, name string) int {
		for i := range t.Columns {
			if strings.EqualFold(t.Columns[i].Name, name) {
				return i
			}
		}
		remedy := "the columns are " + strings.Join(t.Names(), ", ")
		l.Add(posOf(v, option), v.Path(option), fmt.Sprintf("there is no column %q", name), remedy)
		return -1
	}
	for _, name := range v.Strings("sink_columns") {
		if i := find("sink_columns", name); i >= 0 {
			o.columns = append(o.columns, i)
		}
	}
	if len(v.Strings("sink_columns")) == 0 {
		for i := range t.Columns {
			o.columns = append(o.columns, i)
		}
	}
	if !v.Has("have_partition") || v.Bool("have_partition") {
		for _, name := range v.Strings("partition_by") {
			i := find("partition_by", name)
			if i < 0 {
				continue
			}
			switch k := t.Columns[i].Type.Kind; k {
			case schema.Array, schema.Map, schema.Row, schema.Bytes:
				l.Add(posOf(v, "partition_by"), v.Path("partition_by"), fmt.Sprintf("column %q is %s; its values cannot name folders", name, k), "choose another column")
			}
			o.by = append(o.by, i)
		}
	}
	if len(o.by) > 0 {
		o.dirExpr = partitionExpression(v, o, l)
		if !v.Bool("is_partition_field_write_in_file") {
			o.columns = slices.DeleteFunc(o.columns, func(c int) bool { return slices.Contains(o.by, c) })
		}
	}
	if len(o.columns) == 0 {
		l.Add(posOf(v, "sink_columns"), v.Path("sink_columns"), "no column is left to write", "set is_partition_field_write_in_file = true, or name more sink_columns")
		return o
	}
	s.encoding(v, o, formats, l)
	return o
}

const defaultDirExpression = "${k0}=${v0}/${k1}=${v1}/.../${kn}=${vn}/"

// partitionExpression checks the expression of partition folders. The default is written out for the columns.
func partitionExpression(v option.Values, o *output, l *fault.List) string {
	e := strings.TrimSpace(v.String("partition_dir_expression"))
	if e == "" || e == defaultDirExpression {
		var b strings.Builder
		for i := range o.by {
			fmt.Fprintf(&b, "${k%d}=${v%d}/", i, i)
		}
		return b.String()
	}
	for _, part := range strings.Split(e, "/") {
		if part == ".." || part == "." {
			l.Add(posOf(v, "partition_dir_expression"), v.Path("partition_dir_expression"), "the folder leaves path", "leave out . and ..")
		}
	}
	substitute(e, func(name string) (string, bool) {
		for i := range o.by {
			if name == fmt.Sprintf("k%d", i) || name == fmt.Sprintf("v%d", i) {
				return "", true
			}
		}
		l.Add(posOf(v, "partition_dir_expression"), v.Path("partition_dir_expression"), fmt.Sprintf("${%s} stands for no column of partition_by", name), fmt.Sprintf("use ${k0}, ${v0} to ${v%d}", len(o.by)-1))
		return "", false
	})
	return e
}

func (s *sink) encoding(v option.Values, o *output, formats *field.Formats, l *fault.List) {
	t, columns, row := o.table, o.columns, v.String("row_delimiter")
	bad := func(option string, err error) {
		l.Add(posOf(v, option), v.Path(option), err.Error(), "choose another delimiter")
	}
	if row == "" {
		bad("row_delimiter", fmt.Errorf("the row delimiter is empty"))
		return
	}
	delim := v.String("field_delimiter")
	if v.Has("field_delimiter") && delim == "" {
		bad("field_delimiter", fmt.Errorf("the delimiter is empty"))
		return
	}
	null, hasNull := v.String("null_format"), v.Has("null_format")
	header := v.Bool("enable_header_write")
	switch o.format {
	case formatText:
		if delim == "" {
			delim = text.DefaultDelimiter
		}
		opt := text.Options{Delimiter: delim, RowDelimiter: row, Null: null, HasNull: hasNull, Formats: formats}
		if err := opt.CSV().Check(); err != nil {
			bad("field_delimiter", err)
		}
		o.encoder = func() (format.Encoder, error) { return text.NewEncoder(t, columns, opt, header) }
	case formatCSV:
		if delim == "" {
			delim = ","
		}
		opt := csv.Options{Delimiter: delim, RowDelimiter: row, Quote: '"', Null: null, HasNull: hasNull, Formats: formats}
		if err := opt.Check(); err != nil {
			bad("field_delimiter", err)
		}
		mode := map[string]csv.QuoteMode{"MINIMAL": csv.QuoteMinimal, "ALL": csv.QuoteAll, "NONE": csv.QuoteNone}[v.String("csv_string_quote_mode")]
		o.encoder = func() (format.Encoder, error) { return csv.NewEncoder(t, columns, opt, mode, header) }
	case formatJSON:
		o.encoder = func() (format.Encoder, error) { return jsonformat.NewEncoder(t, columns, row), nil }
	case formatParquet:
		s.parquet(v, o, l)
	}
}

// Claim implements connector.Sink.
func (s *sink) Claim() connector.Claim {
	if s.tx {
		return connector.Claim{Guarantee: connector.ExactlyOnce, HostBound: true}
	}
	return connector.Claim{Guarantee: connector.AtLeastOnce}
}

// NewWriter implements connector.Sink.
func (s *sink) NewWriter(_ context.Context, wc connector.WriterContext) (connector.Writer, error) {
	if len(wc.Schemas) != len(s.outputs) {
		return nil, fmt.Errorf("BUG: %d tables arrive, the sink was made for %d", len(wc.Schemas), len(s.outputs))
	}
	return newWriter(s, wc)
}

// NewCommitter implements connector.TwoPhase.
func (s transactional) NewCommitter(_ context.Context, cc connector.CommitterContext) (connector.Committer, error) {
	return &committer{s: s.sink, cc: cc}, nil
}

// finalPath is where a file of an output goes.
func (o *output) finalPath(folder, name string) string { return filepath.Join(o.dir, folder, name) }
