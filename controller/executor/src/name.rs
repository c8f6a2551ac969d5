//! Which names a task may have. A name is the name of a folder, so it must be one component of a path.

/// What a file system allows is 255; Kubernetes allows names of 253.
const LONGEST: usize = 253;

/// Why a name is none of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadName {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {LONGEST} bytes")]
    Long,
    #[error("it begins with a dot")]
    Dot,
    #[error("it has a slash")]
    Slash,
    #[error("it has a control character")]
    Control,
}

/// Whether the folder of this name lies in the data folder, and is not one of ours.
pub(crate) fn check(name: &str) -> Result<(), BadName> {
    let wrong = [
        (name.is_empty(), BadName::Empty),
        (name.len() > LONGEST, BadName::Long),
        (name.starts_with('.'), BadName::Dot),
        (name.contains('/'), BadName::Slash),
        (name.chars().any(char::is_control), BadName::Control),
    ];
    wrong.into_iter().find(|(is_so, _)| *is_so).map_or(Ok(()), |(_, why)| Err(why))
}

/// A name as it may be repeated to whoever sent it.
pub(crate) fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::{check, shortened};

    #[test]
    fn a_name_of_kubernetes_is_one_of_a_task() {
        for name in ["task", "batch-0", "a.b", "A_b~c", "ünï", &"x".repeat(253)] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_name_that_leaves_the_data_folder_is_refused() {
        for name in ["..", "../x", "a/../../x", "/etc", "/", "a/b", "a/"] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_data_folder_itself_is_no_task() {
        assert!(check(".").is_err());
        assert!(check("").is_err());
    }

    #[test]
    fn the_executors_own_files_are_no_tasks() {
        assert!(check(".trash").is_err());
        assert!(check(".queue.json").is_err());
    }

    #[test]
    fn a_name_that_no_file_can_have_is_refused() {
        assert!(check(&"x".repeat(254)).is_err());
        assert!(check("a\0b").is_err());
        assert!(check("a\nb").is_err());
    }

    #[test]
    fn a_refusal_does_not_repeat_a_long_name() {
        assert_eq!(shortened(&"x".repeat(100_000)).len(), 64);
    }
}
