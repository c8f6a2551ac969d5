//! Which fields of a pod, and of a task, merge otherwise than objects and whole lists do.
//!
//! A field that is not named here is merged if it is an object, and replaced if it is anything else. The
//! merge keys are those of Kubernetes' own types (`patchMergeKey`). A port's key is `containerPort` alone,
//! whatever its protocol.

/// The fields of an object that are special.
#[derive(Debug)]
pub(super) struct Shape(&'static [(&'static str, Field)]);

/// How a field merges.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    /// An object, with special fields of its own.
    Object(&'static Shape),
    /// A list of objects that are told apart by this key.
    Keyed(&'static str, &'static Shape),
    /// A list of single values, each of them once.
    Set,
    /// A list that is replaced whole.
    Whole,
}

impl Shape {
    /// How a list in this field merges.
    pub(super) fn list(&self, name: &str) -> Field {
        self.field(name).unwrap_or(Field::Whole)
    }

    /// What an object in this field has.
    pub(super) fn object(&self, name: &str) -> &'static Self {
        match self.field(name) {
            Some(Field::Object(shape)) => shape,
            _ => &PLAIN,
        }
    }

    fn field(&self, name: &str) -> Option<Field> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, field)| *field)
    }
}

/// Nothing special.
static PLAIN: Shape = Shape(&[]);

/// A pod.
pub(super) static POD: Shape = Shape(&[
    ("metadata", Field::Object(&METADATA)),
    ("spec", Field::Object(&POD_SPEC)),
    ("status", Field::Object(&POD_STATUS)),
]);

/// The template of a task.
pub(super) static TASK: Shape = Shape(&[("spec", Field::Object(&TASK_SPEC))]);

static TASK_SPEC: Shape = Shape(&[("process", Field::Object(&PROCESS))]);

static PROCESS: Shape = Shape(&[("env", Field::Keyed("name", &PLAIN))]);

static METADATA: Shape =
    Shape(&[("ownerReferences", Field::Keyed("uid", &PLAIN)), ("finalizers", Field::Set)]);

static POD_SPEC: Shape = Shape(&[
    ("containers", Field::Keyed("name", &CONTAINER)),
    ("initContainers", Field::Keyed("name", &CONTAINER)),
    ("ephemeralContainers", Field::Keyed("name", &CONTAINER)),
    ("volumes", Field::Keyed("name", &VOLUME)),
    ("imagePullSecrets", Field::Keyed("name", &PLAIN)),
    ("hostAliases", Field::Keyed("ip", &PLAIN)),
    ("topologySpreadConstraints", Field::Keyed("topologyKey", &PLAIN)),
    ("schedulingGates", Field::Keyed("name", &PLAIN)),
    ("resourceClaims", Field::Keyed("name", &PLAIN)),
]);

static CONTAINER: Shape = Shape(&[
    ("env", Field::Keyed("name", &PLAIN)),
    ("ports", Field::Keyed("containerPort", &PLAIN)),
    ("volumeMounts", Field::Keyed("mountPath", &PLAIN)),
    ("volumeDevices", Field::Keyed("devicePath", &PLAIN)),
]);

static VOLUME: Shape = Shape(&[("ephemeral", Field::Object(&EPHEMERAL))]);

static EPHEMERAL: Shape = Shape(&[("volumeClaimTemplate", Field::Object(&CLAIM_TEMPLATE))]);

static CLAIM_TEMPLATE: Shape = Shape(&[("metadata", Field::Object(&METADATA))]);

static POD_STATUS: Shape = Shape(&[
    ("conditions", Field::Keyed("type", &PLAIN)),
    ("podIPs", Field::Keyed("ip", &PLAIN)),
    ("hostIPs", Field::Keyed("ip", &PLAIN)),
    ("resourceClaimStatuses", Field::Keyed("name", &PLAIN)),
]);
