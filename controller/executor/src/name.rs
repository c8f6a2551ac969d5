//! Which names a task may have. A name is the name of a folder, so it must be one component of a path.

/// What a file system allows is 255; Kubernetes allows names of 253.
const LONGEST: usize = 253;

/// Whether the folder of this name lies in the data folder, and is not one of ours.
pub(crate) fn check(name: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("invalid task name {:?}: {why}", shortened(name)));
    if name.is_empty() {
        return wrong("it is empty");
    }
    if name.len() > LONGEST {
        return wrong("it is longer than 253 bytes");
    }
    if name.starts_with('.') {
        return wrong("it begins with a dot");
    }
    if name.contains('/') {
        return wrong("it has a slash");
    }
    if name.chars().any(char::is_control) {
        return wrong("it has a control character");
    }
    Ok(())
}

fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::check;

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
        assert!(check(&"x".repeat(100_000)).unwrap_err().len() < 200);
    }
}
