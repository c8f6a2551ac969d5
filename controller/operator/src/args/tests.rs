use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::*;

fn parse(args: &[&str]) -> Result<Args, clap::Error> {
    Args::try_parse_from(["sandgate-operator"].iter().chain(args))
}

#[test]
fn the_command_line_is_consistent() {
    Args::command().debug_assert();
}

#[test]
fn without_options_everything_runs_and_one_replica_is_elected() {
    let args = parse(&[]).unwrap();
    assert_eq!(args.controllers(), [ControllerName::Sandbox, ControllerName::SandboxSet].into());
    assert_eq!(args.access(), Access::default());
    assert!(args.leader_elect);
    assert_eq!(args.times(), Ok(Times::default()));
    assert!(args.listen.ip().is_loopback());
}

#[test]
fn controllers_are_chosen_by_name_and_a_wrong_name_lists_the_right_ones() {
    assert_eq!(parse(&["--controllers", "sandbox"]).unwrap().controllers(), [ControllerName::Sandbox].into());
    assert_eq!(parse(&["--controllers", "sandboxset,sandbox,sandbox"]).unwrap().controllers().len(), 2);
    let error = parse(&["--controllers", "sandbox,pools"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    let text = error.to_string();
    assert!(
        text.contains("'pools'")
            && text.contains("[possible values: sandbox, sandboxset, batchsandbox, pool,"),
        "{text}"
    );
}

#[test]
fn the_election_can_be_turned_off_and_needs_no_value_to_be_on() {
    for (args, expected) in [
        (&["--leader-elect=false"][..], false),
        (&["--leader-elect=true"], true),
        (&["--leader-elect"], true),
        (&["--leader-elect", "--namespace", "a"], true),
    ] {
        assert_eq!(parse(args).unwrap().leader_elect, expected, "{args:?}");
    }
}

#[test]
fn durations_that_do_not_fit_together_are_refused() {
    let times = |duration, renew, retry| {
        let args = ["--lease-duration", duration, "--renew-deadline", renew, "--retry-period", retry];
        parse(&args).unwrap().times()
    };
    assert!(times("30", "20", "5").is_ok());
    assert_eq!(times("10", "10", "2"), Err(TimesError::Renew));
    assert_eq!(times("15", "10", "9"), Err(TimesError::Retry));
    assert_eq!(times("0", "0", "0"), Err(TimesError::Duration));
}

#[test]
fn help_teaches_and_every_option_can_be_given_in_the_environment() {
    let help = Args::command().render_long_help().to_string();
    for word in ["Examples:", "--leader-elect=false", "/readyz", "hands over at once", "SIGTERM"] {
        assert!(help.contains(word), "{word} is not in\n{help}");
    }
    // These are named as they are for the operators of OpenSandbox and scitix.
    let theirs =
        ["SYNC_SANDBOX_ALLOC_CONCURRENCY", "RECYCLE_POD_CONCURRENCY", "POD_NAMESPACE", "LOCAL_CLUSTER_ID"]
            .map(Some);
    for arg in Args::command().get_arguments().filter(|arg| !arg.is_hide_set()) {
        let Some(long) = arg.get_long().filter(|long| !["help", "version"].contains(long)) else { continue };
        let name = format!("SANDGATE_OPERATOR_{}", long.to_uppercase().replace('-', "_"));
        let env = arg.get_env().and_then(|name| name.to_str());
        assert!(env == Some(name.as_str()) || theirs.contains(&env), "{long}");
    }
}
