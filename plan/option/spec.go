package option

// Type is how the value of an option is read.
type Type uint8

// The types of options.
const (
	TString    Type = iota
	TBool           // true or false, quoted or not
	TInt            // 64-bit whole number; 0x and _ are not accepted
	TFloat          // 64-bit float
	TDuration       // 10s, 500ms, or a bare number in Unit
	TBytes          // 64MiB or a bare number of bytes
	TEnum           // one of Enum, without regard to case; the declared spelling is returned
	TStrings        // list of strings; one string alone, or with commas where Split is set, is accepted
	TStringMap      // object of scalars, order kept
	TList           // list of anything; read with Node
	TObject         // object; read with Node, or declared by Sub
	TObjects        // list of objects; each may be declared by Sub
	TAny            // anything; read with Node
)

// Option is one declared option.
type Option struct {
	Name     string
	Aliases  []string // older spellings, accepted silently
	Type     Type
	Default  string // as it would be written; empty: none
	Doc      string // one or two sentences for the reference
	Required bool
	Secret   bool     // never printed, sealed before a job is stored
	Columns  bool     // keys and values below name columns, tables or rows of data: no secret is looked for there
	Enum     []string // TEnum
	Unit     string   // TDuration: ms (default) or s, for bare numbers
	Min, Max *int64   // TInt, inclusive
	Split    bool     // TStrings: "a,b" is two strings
	Sub      *Spec    // TObject, TObjects: declared inside
	Open     bool     // TObject, TObjects with Sub: other keys are allowed
	Hidden   bool     // not in the reference (test switches)
}

// Spec is everything a plugin may be told.
type Spec struct {
	Options []Option
	Rules   []Rule
	// Ignored are keys that SeaTunnel accepts and that mean nothing here, with the reason; a warning. x.* stands
	// for every key below x; without a reason there is no warning.
	Ignored map[string]string
	// Open accepts keys nobody declared (plugins that carry foreign settings).
	Open bool
	// Listing names the command that lists the options, for messages; empty: stctl connector show.
	Listing string
	// Lenient makes a key that nobody declared a warning (env).
	Lenient bool
}

// Rule is a condition over several options.
type Rule struct {
	Kind RuleKind
	Of   []string // names
	When string   // Conditional: the option looked at
	Is   []string // Conditional: its values, without regard to case; empty: it is set
}

// RuleKind says how the options of a rule hang together.
type RuleKind uint8

// The kinds of rules.
const (
	ExactlyOne RuleKind = iota // one of Of is set, not two
	AtMostOne
	AtLeastOne
	Together    // all of Of or none
	Conditional // when When is one of Is, all of Of are required
)

// Bound is for Option.Min and Max.
func Bound(n int64) *int64 { return &n }
