//! A CustomResourceDefinition, made from a type.

pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition as Definition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

/// What a label value may have at most.
pub(crate) const MAX_LABEL: u32 = 63;

/// A definition with what the derive cannot say: the rule about the name, if `label` says why it must fit a
/// label. What it says and nobody wants is taken away.
pub(crate) fn finished(mut definition: Definition, label: Option<&str>) -> Definition {
    let schemas = definition.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
    for schema in schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()) {
        plain(schema);
        schema.x_kubernetes_validations = label.map(|why| vec![short_name(why)]);
    }
    definition
}
/// A name does not change, so the rule is about new objects only: the others must stay deletable.
fn short_name(why: &str) -> ValidationRule {
    ValidationRule {
        rule: format!("oldSelf.hasValue() || size(self.metadata.name) <= {MAX_LABEL}"),
        message: Some(format!("choose a name of at most {MAX_LABEL} characters: {why}")),
        optional_old_self: Some(true),
        ..ValidationRule::default()
    }
}

/// Takes titles away, and `nullable`: where a null is not allowed the API server drops it from what is
/// created, and refuses it in what is applied. So it never stores one. Descriptions lose the line breaks of
/// the comments that they are made of.
fn plain(schema: &mut JSONSchemaProps) {
    schema.title = None;
    schema.nullable = None;
    schema.description = schema.description.take().map(|text| text.replace('\n', " "));
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(plain);
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => plain(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(plain),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        plain(values);
    }
}
