use super::{FieldPath, Step};

fn key(text: &str) -> Step {
    Step::Key(text.to_owned())
}

fn steps(text: &str) -> Vec<Step> {
    FieldPath::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).steps().to_vec()
}

#[test]
fn each_form_of_a_step_is_read() {
    assert_eq!(steps("spec"), [key("spec")]);
    assert_eq!(steps(r#"metadata.labels["x.y/z"]"#), [key("metadata"), key("labels"), key("x.y/z")]);
    assert_eq!(steps(r#"["a b"].c"#), [key("a b"), key("c")]);
    assert_eq!(steps("a[0][12].b"), [key("a"), Step::Index(0), Step::Index(12), key("b")]);
    let tests = vec![("type".to_owned(), "Ready".to_owned()), ("n".to_owned(), "a,b]".to_owned())];
    assert_eq!(steps(r#"c[type=Ready,n="a,b]"].s"#), [key("c"), Step::Where(tests), key("s")]);
    assert_eq!(steps("c[0a=x/v1].s").len(), 3);
}

#[test]
fn parser_and_pattern_judge_alike() {
    let schema = serde_json::json!({ "type": "string", "pattern": super::PATTERN, "maxLength": 512 });
    let schema = jsonschema::validator_for(&schema).unwrap();
    let sixteen = vec!["a"; 16].join(".");
    let good = [
        "a",
        "a.b",
        "a-b.c_d",
        "a[0]",
        "a[999]",
        r#"a["b"]"#,
        r#"["b"]"#,
        "a[b=c]",
        "a[b=c,d=e].f",
        r#"a[b=""]"#,
        r#"a[b="c d"]"#,
        "a[b=x.y/v1-z_]",
        "a[0][b=c]",
        "a[0=c]",
        &sixteen,
    ];
    for text in good {
        assert!(schema.is_valid(&text.into()) && FieldPath::parse(text).is_ok(), "{text}");
    }
    let long = "a".repeat(513);
    let seventeen = vec!["a"; 17].join(".");
    let bad = [
        "",
        ".",
        ".a",
        "a.",
        "a..b",
        "a b",
        "a/b",
        "[0]",
        "[a=b]",
        "a[",
        "a[]",
        "a[b]",
        "a[01]",
        "a[1000]",
        "a[-1]",
        "a[b=]",
        "a[=c]",
        "a[b=c",
        "a[b=c,]",
        "a[b=c d]",
        "a[b=[c]]",
        r#"a[""]"#,
        r#"a["b]"#,
        r#"a["b"c]"#,
        r#"a["b\"]"#,
        r#"a[b="c"d]"#,
        "a[0]b",
        "a]b",
        "$.a",
        "é",
        "a[b=é]",
        "a[1e3]",
        "a[+1]",
        &long,
        &seventeen,
    ];
    for text in bad {
        assert!(!schema.is_valid(&text.into()), "{text} passes the pattern");
        assert!(FieldPath::parse(text).is_err(), "{text} is parsed");
    }
}
