use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> Result<(Option<String>, String, Option<String>), TemplateIdError> {
    text.parse().map(|TemplateId { cluster, name, image }| (cluster, name, image))
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn cluster_and_image_may_be_left_out() {
    assert_eq!(parsed("py"), Ok((None, "py".into(), None)));
    assert_eq!(parsed("east::py-2c4"), Ok((some("east"), "py-2c4".into(), None)));
    assert_eq!(parsed("py//python:3.12"), Ok((None, "py".into(), some("python:3.12"))));
    assert_eq!(
        parsed("east::py.v2//hub.example:5000/a/b@sha256:0a"),
        Ok((some("east"), "py.v2".into(), some("hub.example:5000/a/b@sha256:0a")))
    );
}

#[test]
fn an_image_keeps_its_own_colons_and_slashes() {
    assert_eq!(parsed("py//a::b//c"), Ok((None, "py".into(), some("a::b//c"))));
}

#[test]
fn each_part_has_its_limits() {
    let long = |length: usize| "a".repeat(length);
    assert!(parsed(&format!("{}::{}//{}", long(63), long(253), long(512))).is_ok());
    assert_eq!(parsed(&format!("{}::py", long(64))), Err(TemplateIdError::Cluster));
    assert_eq!(parsed(&long(254)), Err(TemplateIdError::Name));
    assert_eq!(parsed(&format!("py//{}", long(513))), Err(TemplateIdError::Image));
}

#[test]
fn what_is_no_name_is_refused() {
    for text in
        ["", "//image", "a::", "::", "Py", "p_y", "-py", "py-", "a..b", "a/b", "a:b", "a::b::c", "pÿ", "a b"]
    {
        let refused = parsed(text);
        assert!(
            matches!(refused, Err(TemplateIdError::Name | TemplateIdError::Cluster)),
            "{text}: {refused:?}"
        );
    }
    for text in ["::py", "East::py", "a.b::py", "-a::py"] {
        assert_eq!(parsed(text), Err(TemplateIdError::Cluster), "{text}");
    }
    for text in ["py//", "py// a", "py//a b", "py//a\nb", "py///a", "py//ä"] {
        assert_eq!(parsed(text), Err(TemplateIdError::Image), "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_parsed_is_written_the_same_way_again(text in "[a-c:/.-]{0,12}") {
        if let Ok(TemplateId { cluster, name, image }) = text.parse::<TemplateId>() {
            let cluster = cluster.map(|cluster| format!("{cluster}::")).unwrap_or_default();
            let image = image.map(|image| format!("//{image}")).unwrap_or_default();
            prop_assert_eq!(format!("{cluster}{name}{image}"), text);
        }
    }
}
