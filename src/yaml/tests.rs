use proptest::prelude::*;

use super::*;
use crate::value::{Marks, to_json};

fn layer(text: &str) -> Result<Parsed, Error> {
    parse(text, &Options::LAYER)
}

fn kubectl(text: &str) -> Result<Parsed, Error> {
    parse(text, &Options::KUBECTL)
}

fn json(parsed: Result<Parsed, Error>) -> String {
    to_json(&parsed.unwrap().document.value)
}

/// An error as people see it.
fn said(text: &str) -> String {
    let error = layer(text).unwrap_err();
    format!("{}: {error}", error.at())
}

fn at(line: u32, column: u32) -> Position {
    Position { line, column }
}

/// Runs what recurses as deep as a document may be.
fn deep<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> R {
    std::thread::Builder::new().stack_size(64 << 20).spawn(run).unwrap().join().unwrap()
}

// Positions

#[test]
fn every_part_has_its_place() {
    let Document { value, marks } =
        layer("spec:\n  containers:\n  - name: agent\n    é: [1, {x: z}]\n").unwrap().document;
    assert_eq!(to_json(&value), r#"{"spec":{"containers":[{"name":"agent","é":[1,{"x":"z"}]}]}}"#);
    assert_eq!((marks.at, marks.key), (at(1, 1), None));
    let spec = &marks.children[0];
    assert_eq!((spec.at, spec.key), (at(2, 3), Some(at(1, 1))));
    let containers = &spec.children[0];
    assert_eq!((containers.at, containers.key), (at(3, 3), Some(at(2, 3))));
    let agent = &containers.children[0];
    assert_eq!((agent.at, agent.key), (at(3, 5), None));
    assert_eq!((agent.children[0].at, agent.children[0].key), (at(3, 11), Some(at(3, 5))));
    let list = &agent.children[1];
    assert_eq!((list.at, list.key), (at(4, 8), Some(at(4, 5))));
    assert_eq!(list.children[0].at, at(4, 9));
    assert_eq!((list.children[1].children[0].at, list.children[1].children[0].key), (at(4, 16), Some(at(4, 13))));
}

#[test]
fn an_alias_stands_where_it_is_written_and_its_content_where_the_anchor_is() {
    let marks = layer("a: &x\n  p: 1\nb: *x\nc:\n  <<: *x\n  q: 2\n").unwrap().document.marks;
    let [_, b, c] = &marks.children[..] else { panic!("{marks:?}") };
    assert_eq!((b.at, b.key), (at(3, 4), Some(at(3, 1))));
    assert_eq!((b.children[0].at, b.children[0].key), (at(2, 6), Some(at(2, 3))));
    assert_eq!((c.children[0].at, c.children[0].key), (at(2, 6), Some(at(2, 3))));
    assert_eq!((c.children[1].at, c.children[1].key), (at(6, 6), Some(at(6, 3))));
}

#[test]
fn json_has_places_too() {
    let Document { value, marks } =
        layer("\n{\"é\\\"\":\t[1.0, \"\\ud83d\\ude00\\/\"],\n \"b\": {}}").unwrap().document;
    assert_eq!(to_json(&value), "{\"é\\\"\":[1,\"😀/\"],\"b\":{}}");
    assert!(matches!(value.get("é\"").unwrap().as_list().unwrap()[0], Value::Float(_)));
    assert_eq!(marks.at, at(2, 1));
    let [list, b] = &marks.children[..] else { panic!("{marks:?}") };
    assert_eq!((list.at, list.key), (at(2, 9), Some(at(2, 2))));
    assert_eq!((list.children[0].at, list.children[1].at), (at(2, 10), at(2, 15)));
    assert_eq!((b.at, b.key), (at(3, 7), Some(at(3, 2))));
}

// Aliases and merges

#[test]
fn merges_apply_in_the_order_of_the_document() {
    let base = "a: &a {p: 1}\nb: &b {p: 2, q: 2}\n";
    for (merge, read) in [
        ("{<<: [*a, *b], r: 3}", r#"{"p":1,"q":2,"r":3}"#),
        ("{p: 0, <<: *a}", r#"{"p":1}"#),
        ("{<<: *a, p: 0}", r#"{"p":0}"#),
        ("{<<: {<<: *b, p: 5}}", r#"{"p":5,"q":2}"#),
        ("{<<: *a, <<: *b}", r#"{"p":2,"q":2}"#),
        ("{'<<': *a}", r#"{"<<":{"p":1}}"#),
        ("{<<: []}", "{}"),
    ] {
        let read = format!(r#"{{"a":{{"p":1}},"b":{{"p":2,"q":2}},"c":{read}}}"#);
        assert_eq!(json(kubectl(&format!("{base}c: {merge}\n"))), read, "{merge}");
    }
    for wrong in ["3", "~", "[1]", "[[]]", "*s", "*l"] {
        let error = kubectl(&format!("s: &s x\nl: &l [{{a: 1}}]\nc: {{<<: {wrong}}}\n")).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::MergeValue, "{wrong}");
    }
}

#[test]
fn anchors_can_be_set_again_and_must_stand_above() {
    assert_eq!(json(layer("- &a 1\n- *a\n- &a [&b 2, *b]\n- *a\n- *b\n")), "[1,1,[2,2],[2,2],2]");
    assert_eq!(json(layer("&a a: *a\nb: &c 0644\n*c : 1\n")), r#"{"a":"a","b":420,"420":1}"#);
    assert_eq!(*layer("a: *b\nb: &b 1").unwrap_err().kind(), ErrorKind::UnknownAnchor { anchor: "b".to_owned() });
    for cycle in ["a: &x [*x]", "a: &x {<<: *x}", "a: &x {b: [{c: *x}]}"] {
        let error = layer(cycle).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::SelfReference { anchor: "x".to_owned() }, "{cycle}");
    }
}

// Limits

#[test]
fn an_alias_bomb_is_not_expanded() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..40 {
        bomb += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(", "));
    }
    assert_eq!(*layer(&bomb).unwrap_err().kind(), ErrorKind::ExcessiveAliasing);
    assert_eq!(*kubectl(&bomb).unwrap_err().kind(), ErrorKind::ExcessiveAliasing);
    // Few values, but much text.
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 19), "*a, ".repeat(1000));
    assert_eq!(*layer(&long).unwrap_err().kind(), ErrorKind::ExcessiveAliasing);
    let merged = format!("a: &a {{{}}}\nb: [{}]\n", "k: 1, ", "{<<: *a}, ".repeat(10_001));
    assert_eq!(*layer(&merged).unwrap_err().kind(), ErrorKind::TooManyNodes { limit: 20_000 });
}

#[test]
fn the_number_of_values_is_bounded() {
    // The list counts.
    assert!(layer(&"- a\n".repeat(19_999)).is_ok());
    let error = layer(&"- a\n".repeat(20_000)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TooManyNodes { limit: 20_000 });
    assert_eq!(error.at(), at(20_000, 3));
    assert!(layer(&format!("{{\"a\":[{}1]}}", "1,".repeat(19_997))).is_ok());
    assert!(layer(&format!("{{\"a\":[{}1]}}", "1,".repeat(19_998))).is_err());
}

#[test]
fn the_length_is_bounded() {
    let text = |length: usize| format!("a: {}", "x".repeat(length - 3));
    assert!(layer(&text(1 << 20)).is_ok());
    let error = layer(&text((1 << 20) + 1)).unwrap_err();
    assert_eq!((error.kind(), error.at()), (&ErrorKind::TooLarge { limit: 1 << 20 }, at(1, 1)));
}

#[test]
fn the_depth_is_bounded() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", "")] {
        let text = |depth: usize| format!("{}x{}", open.repeat(depth), close.repeat(depth));
        assert!(layer(&text(64)).is_ok());
        let error = layer(&text(65)).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::TooDeep { limit: 64 });
        assert_eq!(error.at(), at(1, open.len() as u32 * 64 + 1));
    }
    assert!(layer(&format!("{{\"a\":{}{}}}", "[".repeat(63), "]".repeat(63))).is_ok());
    assert!(layer(&format!("{{\"a\":{}{}}}", "[".repeat(64), "]".repeat(64))).is_err());
    // Through aliases as well.
    let nested: String = (1..70).map(|i| format!("- &a{i} [*a{}]\n", i - 1)).collect();
    assert_eq!(*layer(&format!("- &a0 x\n{nested}")).unwrap_err().kind(), ErrorKind::TooDeep { limit: 64 });
}

#[test]
fn a_document_of_kubectls_depth_fits_the_stack_that_is_asked_for() {
    deep(|| {
        let text =
            |block: usize, flow: usize| format!("{}{}{}", "- ".repeat(block), "[".repeat(flow), "]".repeat(flow));
        let deepest = kubectl(&text(10_000, 10_000)).unwrap().document;
        assert_eq!(to_json(&deepest.value.clone()).len(), 40_000);
        for under in ["", "a: ", "a: [1, ", "\"a\": "] {
            let error = kubectl(&format!("{under}{}", text(0, 10_001))).unwrap_err();
            let flow = under.matches('[').count();
            assert_eq!(*error.kind(), ErrorKind::TooDeep { limit: 10_000 });
            assert_eq!(error.at(), at(1, (under.len() + 10_001 - flow) as u32));
        }
        assert_eq!(*kubectl(&text(10_001, 1)).unwrap_err().kind(), ErrorKind::TooDeep { limit: 10_000 });
    });
}

// Strictness

#[test]
fn a_key_that_is_set_twice_is_an_error_with_both_places() {
    let image = "containers:\n- name: a\n  image: v1\n  image: v2\n";
    assert_eq!(said(image), "line 4 column 3: key \"image\" is set twice, first at line 3 column 3: keep one");
    assert_eq!(
        said("{\"a\": 1,\n \"a\": 2}"),
        "line 2 column 2: key \"a\" is set twice, first at line 1 column 2: keep one"
    );
    assert_eq!(
        said("yes: 1\ntrue: 2"),
        "line 2 column 1: key \"true\" is set twice, first at line 1 column 1: keep one"
    );
    assert_eq!(json(kubectl(image)), r#"{"containers":[{"name":"a","image":"v2"}]}"#);
}

#[test]
fn a_key_that_is_overridden_through_a_merge_is_an_error_with_both_places() {
    let explicit_last = "a: &a {p: 1}\nc:\n  <<: *a\n  p: 2\n";
    let merge_last = "a: &a {p: 1}\nc:\n  p: 2\n  <<: *a\n";
    let twice = "a: &a {p: 1}\nc:\n  <<: [*a, *a]\n";
    let message = "key \"p\" is set twice, once through \"<<\", first at";
    assert_eq!(said(explicit_last), format!("line 4 column 3: {message} line 1 column 8: keep one"));
    assert_eq!(said(merge_last), format!("line 4 column 3: {message} line 3 column 3: keep one"));
    assert_eq!(said(twice), format!("line 3 column 3: {message} line 1 column 8: keep one"));
    assert_eq!(json(layer("a: &a {p: 1}\nc:\n  <<: *a\n  q: 2\n")), r#"{"a":{"p":1},"c":{"p":1,"q":2}}"#);
}

#[test]
fn one_patch_is_one_document() {
    assert_eq!(said("a: 1\n---\nb: 2\n"), "line 2 column 1: a second document starts here: one patch is one document");
    assert_eq!(*layer("a: 1\n---\n").unwrap_err().kind(), ErrorKind::SecondDocument);
    assert_eq!(json(kubectl("a: 1\n---\n{b: \n")), r#"{"a":1}"#);
    for one in ["---\na: 1\n", "# c\n---\na: 1\n...\n", "a: 1\n...\n# c\n", "%YAML 1.1\n---\na: 1\n"] {
        assert_eq!(json(layer(one)), r#"{"a":1}"#, "{one}");
    }
    for empty in ["", "# c\n", "---\n", "\u{feff}", "\n\n"] {
        let document = layer(empty).unwrap().document;
        assert_eq!(document.value, Value::Null, "{empty}");
    }
    assert_eq!(*kubectl("%YAML 1.2\n---\na: 1\n").unwrap_err().kind(), ErrorKind::Version);
}

// Errors that help

#[test]
fn a_key_that_is_indented_too_deep_is_shown_itself() {
    let text = "automountServiceAccountToken: true\n  initContainers:\n  - name: copy-agent\n";
    let hint = "is indented deeper than the line above, which already has a value; indent it like its siblings";
    assert_eq!(said(text), format!("line 2 column 3: mapping values are not allowed here: \"initContainers\" {hint}"));
    assert_eq!(
        said("a: \"x\"\n  # c\n\n   b: 1\n"),
        format!("line 4 column 4: did not find expected key: \"b\" {hint}")
    );
    assert_eq!(
        said("a: b\n  c\n  d: e\n"),
        "line 3 column 3: mapping values are not allowed here: \"d\" is read as more of the text above it: \
         indent it like \
         its siblings"
    );
    let like_none = "is indented like no line above it: indent it like its siblings";
    assert_eq!(
        said("a:\n    b: 1\n  c: 2\n"),
        format!("line 3 column 3: did not find expected key: \"c\" {like_none}")
    );
    assert_eq!(
        said("  a: 1\nb: 2\n"),
        format!("line 2 column 1: did not find expected <document start>: \"b\" {like_none}")
    );
}

#[test]
fn syntax_errors_say_where_and_what_to_write() {
    for (text, message) in [
        (
            "a: b: c",
            "line 1 column 5: mapping values are not allowed here: a value without quotes can't hold \": \
             \", put it in quotes; fields of \"a\" start on a line of their own",
        ),
        ("a:\n\tb: 1", "line 2 column 1: found a tab: indent with spaces"),
        (
            "a: |\n  \tb\n",
            "line 2 column 3: found a tab character where an indentation space is expected: indent with spaces",
        ),
        (
            "a: 1\nb\nc: 2",
            "line 2 column 1: could not find expected ':': \"b\" is no key with a value, nor indented as a \
             part of the text \
             above",
        ),
        (
            "a: `x",
            "line 1 column 4: found character that cannot start any token: text that starts with \"`\" must \
             stand in quotes",
        ),
        (
            "a: *\n",
            "line 1 column 4: did not find expected alphabetic or numeric character: text that starts with \
             \"*\" must stand \
             in quotes",
        ),
        ("a: 'x\nb: 1\n", "line 1 column 4: found unexpected end of stream: the quote that opens here is never closed"),
        (
            "a: [1, 2\n",
            "line 1 column 4: did not find expected ',' or ']': the bracket that opens here is never closed",
        ),
        (
            "a: [\"b \"c\"\"]\n",
            "line 1 column 9: did not find expected ',' or ']': the quotes close in front of it: write a quote inside of them \
             with a backslash, or the whole text in single quotes",
        ),
        (
            "a:\n- name: b\nvalue\n",
            "line 3 column 1: could not find expected ':': \"value\" is no key with a value, nor indented as a part of the text \
             above",
        ),
        (
            "a:\n  - name: b\n  value: c\n",
            "line 3 column 3: did not find expected '-' indicator: \"value\" stands below the dash of the item above: indent it \
             like \"name\", whose item it belongs to",
        ),
        (
            "a:\n- name:b\n  image: c\n",
            "line 2 column 3: mapping values are not allowed here: \"name:b\" lacks the blank behind its colon: write \"name: b\"",
        ),
        (
            "a:\n- redis 7:0\n  b: c\n",
            "line 3 column 3: mapping values are not allowed here: \"b\" is indented deeper than the line above, which already \
             has a value; indent it like its siblings",
        ),
        (
            "a: [1, 2\nb: 1\n",
            "line 2 column 2: did not find expected ',' or ']': it belongs to the bracket at line 1 column 4",
        ),
        (
            "a: - b\n",
            "line 1 column 4: block sequence entries are not allowed in this context: start the list on a \
             line of its own, \
             or put the text in quotes",
        ),
        (
            "a: \"\\d\"\n",
            "line 1 column 5: found unknown escape character: in double quotes a backslash starts an \
             escape: use single \
             quotes, or write two backslashes",
        ),
        (
            "a: \"it\\'s\"\n",
            "line 1 column 7: found unknown escape character: in double quotes a single quote needs no backslash",
        ),
        (
            "a: \"b\" c\n",
            "line 1 column 8: did not find expected key: nothing may follow the closing quote: put all of \
             the text in one \
             pair of quotes",
        ),
        (
            "a: b\u{1}\n",
            "line 1 column 5: control characters are not allowed: write the character as \"\\u0001\" in \
             double quotes, or \
             leave it out",
        ),
        ("a: {{ x }}\n", "line 1 column 5: an object, as {{ … }} is one, can't be a key: put the text in quotes"),
        ("~: a\n", "line 1 column 1: null can't be a key: put the text in quotes"),
        ("a: .inf\n", "line 1 column 4: a number must be finite: put it in quotes if it is meant as text"),
        (
            "a: {b:}\n",
            "line 1 column 6: found unexpected ':': write a space behind the colon, or put the text in quotes",
        ),
        (
            "a: [http://b/?c]\n",
            "line 1 column 5: found unexpected '?': in [] and {} text with a question mark must stand in quotes",
        ),
        ("a: \"\\/\"\n", "line 1 column 4: found unknown escape character: write \"/\" without a backslash"),
        (
            "a: \"\\ud83d\\ude00\"\n",
            "line 1 column 7: found invalid Unicode character escape code: write the character itself",
        ),
        (
            "{\"a\": \"\\ud83d\"}",
            "line 1 column 7: found half of a surrogate pair in a string: write both halves, as in \"\\ud83d\\ude00\", or the character itself",
        ),
        ("{\"a\": 1e400}", "line 1 column 7: a number must be finite: put it in quotes if it is meant as text"),
        ("a: !!int x\n", "line 1 column 4: \"x\" can't be read as !!int: leave the tag out, or write such a value"),
        ("a: 1\n\u{feff}b: 2\n", "line 2 column 1: found an invisible character: take the byte order mark U+FEFF out"),
    ] {
        assert_eq!(said(text), message, "{text:?}");
    }
}

// What people could mean otherwise

#[test]
fn scalars_that_change_are_remarked_keys_too() {
    let text =
        "on: yes\na: 1.20\nb: [0123456, 1_000, 1e3]\n0644: \"on\"\nc: &c no\nd: *c\ne: true\nf: 1.5\ng: !!int 010\n";
    let remarks: Vec<_> = layer(text)
        .unwrap()
        .remarks
        .into_iter()
        .map(|remark| (remark.at, remark.key, remark.written, to_json(&remark.read_as)))
        .collect();
    let remark =
        |line, column, key, written: &str, read: &str| (at(line, column), key, written.to_owned(), read.to_owned());
    assert_eq!(
        remarks,
        [
            remark(1, 1, true, "on", "true"),
            remark(1, 5, false, "yes", "true"),
            remark(2, 4, false, "1.20", "1.2"),
            remark(3, 5, false, "0123456", "42798"),
            remark(3, 14, false, "1_000", "1000"),
            remark(3, 21, false, "1e3", "1000"),
            remark(4, 1, true, "0644", "420"),
            remark(5, 4, false, "no", "false"),
        ]
    );
    assert!(layer(r#"{"a": 1.20, "b": "yes"}"#).unwrap().remarks.is_empty());
}

// What libyaml's port would get wrong

#[test]
fn a_text_needs_no_line_break_at_its_end() {
    // Each as kubectl reads it.
    for (text, read) in [
        ("a: |\n  x", r#"{"a":"x"}"#),
        ("a: |+\n  x\n ", r#"{"a":"x\n"}"#),
        ("a: |+\n  x\n   ", r#"{"a":"x\n "}"#),
        ("a: |\n  x\n   ", r#"{"a":"x\n "}"#),
        ("a: >-\n  x\n  y", r#"{"a":"x y"}"#),
        ("a: |\n  x\u{2028}", "{\"a\":\"x\u{2028}\"}"),
        ("a: x\\", r#"{"a":"x\\"}"#),
        ("a: 'x'", r#"{"a":"x"}"#),
    ] {
        assert_eq!(json(kubectl(text)), read, "{text:?}");
    }
    assert!(layer("\"a\\").is_err());
}

#[test]
fn tags_that_the_parser_would_panic_over_are_errors() {
    for text in ["[!a,b]", "[!,]", "[!<a>,b]", "{a: !b,}", "[!a:,b]", "[!, '"] {
        let error = layer(text).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Syntax { .. }), "{text} {error}");
    }
    assert_eq!(layer("[\"!x, y\",\n \"!z,\", !t,u]").unwrap_err().at(), at(2, 9));
    for (text, read) in
        [("[a!,b]", r#"["a!","b"]"#), ("[!<x,y> a]", r#"["a"]"#), ("a: Hi !you, there", r#"{"a":"Hi !you, there"}"#)]
    {
        assert_eq!(json(layer(text)), read, "{text}");
    }
}

// Any text

/// Pieces that make texts which are YAML, or nearly.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b: ",
        "- ",
        "? ",
        ": ",
        " ",
        "  ",
        "\n",
        "\n  ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "&x ",
        "*x",
        "<<: ",
        "!!str ",
        "!!binary ",
        "!t",
        "!<",
        ">",
        "!",
        "'",
        "\"",
        "|\n",
        ">-\n",
        "# c",
        "%TAG ! x\n",
        "%YAML 1.1\n",
        "---\n",
        "...\n",
        "\t",
        "\r\n",
        "yes",
        "~",
        "0644",
        "1e3",
        ".inf",
        "-",
        "\\",
        "\\/",
        "\\u00e9",
        "\\ud83d",
        "é",
        "\u{2028}",
        "\u{feff}",
        "😀",
        "@",
        "`",
        "\u{1}",
        "{\"a\": 1}",
        "&x {p: 1}",
        "2001-01-01",
    ]);
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

/// Whether marks have the shape of their value.
fn fit(value: &Value<'_>, marks: &Marks) -> bool {
    match value {
        Value::List(items) => {
            let keyless = marks.children.iter().all(|mark| mark.key.is_none());
            keyless && items.len() == marks.children.len() && items.iter().zip(&marks.children).all(|(v, m)| fit(v, m))
        }
        Value::Object(map) => {
            let keyed = marks.children.iter().all(|mark| mark.key.is_some());
            keyed && map.len() == marks.children.len() && map.iter().zip(&marks.children).all(|((_, v), m)| fit(v, m))
        }
        _ => marks.children.is_empty(),
    }
}

fn holds(text: &str) -> Result<(), TestCaseError> {
    for options in [Options::LAYER, Options::KUBECTL] {
        match parse(text, &options) {
            Ok(parsed) => prop_assert!(fit(&parsed.document.value, &parsed.document.marks)),
            Err(error) => {
                prop_assert!(!error.to_string().contains("found what can't be read"), "a panic");
                let lines = 1 + text.matches(reader::BREAKS).count() as u32;
                prop_assert!((1..=lines).contains(&error.at().line) && error.at().column > 0, "{error} {}", error.at());
            }
        }
    }
    // What is read without complaint reads the same once it is JSON.
    if let Ok(Parsed { document: Document { value: Value::Object(map), .. }, .. }) = layer(text) {
        let value = Value::Object(map);
        prop_assert_eq!(json(layer(&to_json(&value))), to_json(&value));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_near_yaml_panics_or_loses_its_place(text in pieces()) {
        holds(&text)?;
    }

    #[test]
    fn no_text_panics_or_loses_its_place(text in any::<String>()) {
        holds(&text)?;
    }
}
