//! What `/proc` says of processes, as far as we need it.

use std::fs;
use std::io;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::start::Started;

/// A line of `/proc/PID/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    /// Ended, and only not yet waited for.
    pub(crate) dead: bool,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// In ticks since the machine started.
    pub(crate) start_time: u64,
}

/// The process with this pid, if there is one.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    // The name may contain anything, a newline too.
    parse(pid, &String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
}

fn parse(pid: i32, line: &str) -> Option<Stat> {
    // The name is in brackets and may have brackets itself: what counts is behind the last one.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some(Stat {
        pid,
        dead: matches!(*fields.first()?, "Z" | "X" | "x"),
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

/// Every process that there is, by pid.
pub(crate) fn pids() -> io::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    pids.sort_unstable();
    Ok(pids)
}

/// Which start of the machine this is. Pids and start times of another one say nothing.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Which PID namespace this is. The number of one that is gone is soon given to another, so the start of its
/// first process is part of it.
pub(crate) fn pid_namespace() -> Option<String> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    let first = stat(1).map_or_else(String::new, |first| first.start_time.to_string());
    Some(format!("{}@{first}", link.display()))
}

/// Whether the numbers of this start's processes mean the same processes here and now.
fn is_of_here(started: &Started) -> bool {
    started.boot_id.as_deref().is_none_or(|boot| boot == boot_id())
        && (started.pid_namespace.is_none() || started.pid_namespace == pid_namespace())
}

/// Whether the shim of this start lives. A process that has got its pid since is not it.
pub(crate) fn is_alive(started: &Started) -> bool {
    leader(started).is_some_and(|leader| !leader.dead)
}

fn leader(started: &Started) -> Option<Stat> {
    if !is_of_here(started) {
        return None;
    }
    stat(started.pid).filter(|stat| is_of(started, stat))
}

fn is_of(started: &Started, stat: &Stat) -> bool {
    match started.start_time {
        Some(start_time) => stat.start_time == start_time,
        // OpenSandbox's executor writes no start time. Its pid file is younger than the process.
        None => started_before(stat.start_time, started.at.as_second()),
    }
}

/// Whether a process that started at this tick did so before this second, give or take two.
fn started_before(ticks: u64, second: i64) -> bool {
    let Some(boot) = fs::read_to_string("/proc/stat").ok().and_then(|text| {
        text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<i64>().ok())
    }) else {
        return false;
    };
    // A tick is a hundredth of a second wherever /proc is Linux's.
    let at = i64::try_from(ticks / 100).map_or(i64::MAX, |ticks| boot.saturating_add(ticks));
    at <= second.saturating_add(2)
}

/// The living processes of a task: its group, and with our shim also the other groups of its session, which
/// an interactive shell makes.
///
/// None of them if the pid has been given to another process since, or is one of another PID namespace. As
/// long as a group or session has members, its number is not given away: so where the leader is gone, members
/// of that number are the task's.
pub(crate) fn members(started: &Started) -> io::Result<Vec<Stat>> {
    if started.pid <= 1 || !is_of_here(started) {
        return Ok(Vec::new());
    }
    match stat(started.pid) {
        Some(other) if !is_of(started, &other) => return Ok(Vec::new()),
        None if started.start_time.is_none() => return Ok(Vec::new()),
        Some(_) | None => {}
    }
    let of_session = started.start_time.is_some();
    let is_member = |stat: &Stat| {
        let number = if of_session { stat.session } else { stat.group };
        !stat.dead && number == started.pid
    };
    Ok(pids()?.into_iter().filter_map(stat).filter(is_member).collect())
}

/// Signals each of these: the task's group at once, so that none escapes by forking, and the others one by
/// one.
pub(crate) fn signal(started: &Started, members: &[Stat], signal: Signal) {
    let send = |sent: rustix::io::Result<()>| match sent {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => tracing::warn!("cannot signal a process of pid {}: {error}", started.pid),
    };
    if let Some(group) = Pid::from_raw(started.pid)
        && members.iter().any(|member| member.group == started.pid)
    {
        send(kill_process_group(group, signal));
    }
    for member in members.iter().filter(|member| member.group != started.pid) {
        if let Some(pid) = Pid::from_raw(member.pid) {
            send(kill_process(pid, signal));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process};

    use super::{Stat, boot_id, is_alive, members, parse, pid_namespace, stat};
    use crate::clock;
    use crate::start::Started;

    fn me() -> Started {
        let pid = i32::try_from(std::process::id()).unwrap();
        let start_time = stat(pid).unwrap().start_time;
        Started {
            pid,
            start_time: Some(start_time),
            boot_id: Some(boot_id()),
            pid_namespace: pid_namespace(),
            at: clock::now(),
        }
    }

    #[test]
    fn a_name_with_brackets_and_spaces_is_skipped() {
        let line = "7 (a) b) (c) S 1 7 6 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1 2";
        let want = Stat { pid: 7, dead: false, group: 7, session: 6, start_time: 12345 };
        assert_eq!(parse(7, line), Some(want));
        assert!(parse(7, &line.replace(" S ", " Z ")).unwrap().dead);
    }

    #[test]
    fn a_process_is_known_by_its_pid_and_its_start() {
        assert!(is_alive(&me()));
        let other = Started { start_time: me().start_time.map(|time| time + 1), ..me() };
        assert!(!is_alive(&other), "the pid was given to another process");
        assert!(members(&other).unwrap().is_empty(), "whose group is not touched");
    }

    #[test]
    fn a_process_of_another_start_of_the_machine_is_gone() {
        assert!(!is_alive(&Started { boot_id: Some("another".to_owned()), ..me() }));
    }

    #[test]
    fn a_session_of_another_pid_namespace_is_not_touched() {
        // Its leader is gone, and one process of the session is left.
        let mut leader = Command::new("setsid")
            .args(["sh", "-c", "sleep 300 >/dev/null & echo $!"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut left = String::new();
        BufReader::new(leader.stdout.take().unwrap()).read_line(&mut left).unwrap();
        leader.wait().unwrap();
        let left = left.trim().parse().unwrap();
        let here = Started { pid: i32::try_from(leader.id()).unwrap(), ..me() };
        let there = Started { pid_namespace: Some("pid:[4026531836]@7".to_owned()), ..here.clone() };
        let of =
            |started: &Started| members(started).unwrap().iter().map(|stat| stat.pid).collect::<Vec<_>>();
        let found = [of(&here), of(&there)];
        kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
        assert_eq!(found, [vec![left], vec![]]);
        assert!(!is_alive(&Started { pid_namespace: there.pid_namespace, ..me() }));
    }

    #[test]
    fn without_a_start_time_a_process_is_known_by_the_age_of_the_pid_file() {
        let theirs = Started { start_time: None, boot_id: None, pid_namespace: None, ..me() };
        assert!(is_alive(&theirs));
        let long_ago = jiff::Timestamp::from_second(1_000_000_000).unwrap();
        assert!(!is_alive(&Started { at: long_ago, ..theirs }), "the process is younger than its pid file");
    }
}
