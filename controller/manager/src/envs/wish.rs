//! What a create asks of an environment: the fields of E2B's request, and the wishes in its metadata.
//!
//! The wishes are `agentbox.scitix.ai/{startup-timeout, image, scaling-group, no-wait}`. Those of OpenKruise
//! that mean the same are taken too; what an environment cannot do is refused, and not left out.

use std::collections::BTreeMap;
use std::time::Duration;

use sandgate_envs::router::TemplateId;
use sandgate_objects::duration::go_duration;

use super::unsupported;
use crate::{Error, Extensions, NewSandbox, Reserve};

/// What a wish begins with.
const PREFIX: &str = "agentbox.scitix.ai/";
/// The longest time that a sandbox may take to start.
const LONGEST: Duration = Duration::from_secs(3600);

/// What is asked of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    /// Another image of the first container.
    pub(super) image: Option<String>,
    /// How long it may take to run.
    pub(super) startup_timeout: Option<Duration>,
    /// How long to wait for a pod.
    pub(super) claim_timeout: Option<Duration>,
    /// The scaling group that its pool must have.
    pub(super) scaling_group: Option<String>,
    /// The answer comes as soon as it has a pod.
    pub(super) no_wait: bool,
    /// Its runtime is not initialised.
    pub(super) skip_init: bool,
    /// The time without use after which it is released; zero is never.
    pub(super) idle_timeout: Duration,
    /// The user's own words, without the wishes.
    pub(super) metadata: BTreeMap<String, String>,
}

impl Wishes {
    /// Reads what a create asks for.
    ///
    /// # Errors
    /// An environment cannot do it, or a wish has another form.
    pub(super) fn read(new: &NewSandbox, template: &TemplateId) -> Result<Self, Error> {
        refused(new)?;
        let Extensions { claim_timeout, wait_ready_timeout, image, skip_init_runtime, .. } = &new.extensions;
        let mut wishes = Self {
            image: image.clone(),
            startup_timeout: *wait_ready_timeout,
            claim_timeout: *claim_timeout,
            skip_init: *skip_init_runtime,
            idle_timeout: new.timeout.unwrap_or_default(),
            ..Self::default()
        };
        for (key, value) in &new.metadata {
            match key.strip_prefix(PREFIX) {
                Some(wish) => wishes.take(wish, value)?,
                None => {
                    wishes.metadata.insert(key.clone(), value.clone());
                }
            }
        }
        match (&wishes.image, &template.image) {
            (Some(asked), Some(named)) if asked != named => {
                let expected = "expected the image that the metadata names, or none";
                return Err(Error::invalid("templateID", expected));
            }
            (None, named) => wishes.image.clone_from(named),
            (Some(_), _) => {}
        }
        Ok(wishes)
    }

    fn take(&mut self, wish: &str, value: &str) -> Result<(), Error> {
        let wrong = |expected: &str| Error::invalid(&format!("metadata.{PREFIX}{wish}"), expected);
        match wish {
            "startup-timeout" => {
                let seconds = value.parse().ok().map(Duration::from_secs).or_else(|| go_duration(value));
                let fits = |time: &Duration| !time.is_zero() && *time <= LONGEST;
                let expected = "expected seconds or a duration such as 2m, up to an hour";
                self.startup_timeout = Some(seconds.filter(fits).ok_or_else(|| wrong(expected))?);
            }
            "image" => {
                let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@+".contains(&byte);
                if !(1..=1024).contains(&value.len()) || !value.bytes().all(fine) {
                    return Err(wrong("expected the name of an image"));
                }
                self.image = Some(value.to_owned());
            }
            "scaling-group" => {
                if !(1..=253).contains(&value.len()) {
                    return Err(wrong("expected the name of a scaling group"));
                }
                self.scaling_group = Some(value.to_owned());
            }
            "no-wait" => self.no_wait = value.parse().map_err(|_| wrong("expected true or false"))?,
            _ => return Err(wrong("expected startup-timeout, image, scaling-group or no-wait")),
        }
        Ok(())
    }
}

/// What no environment can do. These fields are wrong; rules of the network could be had elsewhere.
fn refused(new: &NewSandbox) -> Result<(), Error> {
    let Extensions { cpu_request, cpu_limit, reserve_failed, reserve_paused, return_ip, name, .. } =
        &new.extensions;
    let wrong = [
        (new.auto_pause, "autoPause", "expected false"),
        (new.auto_resume, "autoResume", "expected none"),
        (
            cpu_request.is_some() || cpu_limit.is_some(),
            "metadata",
            "expected no wish for CPU: the pool has it",
        ),
        (*reserve_failed != Reserve::Never, "metadata", "expected no wish to keep what failed"),
        (reserve_paused.is_some(), "metadata", "expected no wish for pauses"),
        (*return_ip, "metadata", "expected no wish for the pod's address"),
        (name.is_some(), "metadata", "expected no wish for a name"),
    ];
    if let Some((_, field, expected)) = wrong.into_iter().find(|(is_asked, ..)| *is_asked) {
        return Err(Error::invalid(field, &format!("{expected}; the template is an environment")));
    }
    let has_rules = new.network.as_ref().is_some_and(|network| !network.is_empty());
    if has_rules || new.allow_internet_access == Some(false) {
        return Err(unsupported("network", "Ask whoever runs the cluster for a NetworkPolicy of the pool."));
    }
    Ok(())
}
