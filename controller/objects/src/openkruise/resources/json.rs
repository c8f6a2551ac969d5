//! Parts of OpenKruise's objects that are kept as JSON text.

use crate::whole::json::json_objects;

json_objects! {
    /// A volume claim template: metadata and spec of a PersistentVolumeClaim.
    VolumeClaimTemplate at "spec.volumeClaimTemplates";
    /// When a sandbox pauses and resumes by itself, as newer versions of OpenKruise have it.
    AutoPausePolicy at "spec.autoPausePolicy";
    /// A probe of the newer OpenKruise, which nobody here reads.
    Probe at "spec.probes";
    /// A schedule of the newer OpenKruise, which nobody here reads.
    Schedule at "status.schedules";
    /// What a checkpoint changes in the pod template of the sandbox that starts from it.
    PodTemplateDelta at "status.podTemplateDelta";
}
