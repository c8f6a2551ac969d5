//! What the user is given.

use std::path::PathBuf;

use super::{Demo, ID, PAGE, SANDBOX, SET};
use crate::locations;

/// A whole life, in one line.
const SNIPPET: &str = "from e2b import Sandbox; box = Sandbox.create(\"base\"); \
    box.files.write(\"note.txt\", \"written through the gateway\"); \
    print(box.sandbox_id, box.commands.run(\"cat note.txt\").stdout); box.kill()";

impl Demo {
    /// The lines for people and shells, without the last one, `ready`.
    pub fn text(&self) -> String {
        let gateway = self.gateway();
        format!(
            "\
# A request to the sandbox {SANDBOX}:
curl -sS http://{gateway}/kruise/{ID}/{PAGE}/

# Sandboxes of your own, with E2B's SDK (npm's works too, with the same variables; as old as 2.8.1
# it also needs a domain after connect(): envoy/docs/e2b-sdk.md):
pip install e2b
{account}
python3 -c '{snippet}'

# In another terminal, first the lines below, or: . {environment}
#   kubectl get sandboxsets,sandboxes,pods
#   kubectl scale sandboxset {SET} --replicas=4
#   kubectl patch sandbox {SANDBOX} --type=merge -p '{{\"spec\":{{\"paused\":true}}}}'   # and the curl line says so
#   kubectl exec {SANDBOX} -c sandbox -- env
#   sandgate routes --admin \"$SANDGATE_ADMIN\"
{exports}",
            account = self.account(),
            snippet = SNIPPET,
            environment = self.environment_file().display(),
            exports = self.exports(),
        )
    }

    /// Where E2B's SDKs find the API and the sandboxes, and the key, in one line.
    fn account(&self) -> String {
        let (key, api) = (quoted(&self.key), quoted(&self.api()));
        let sandboxes = quoted(&format!("http://{}", self.gateway()));
        format!("export E2B_API_KEY={key} E2B_API_URL={api} E2B_SANDBOX_URL={sandboxes}")
    }

    /// Lines that a shell can eval.
    fn exports(&self) -> String {
        let programs = locations::cluster();
        let programs = programs.parent().expect("a file is in a folder");
        let command = locations::cli();
        let command = command.parent().expect("a file is in a folder");
        let values = [
            ("KUBECONFIG", quoted(&self.cluster.kubeconfig().display().to_string())),
            ("SANDGATE_GATEWAY", quoted(&format!("http://{}", self.gateway()))),
            ("SANDGATE_ADMIN", quoted(&format!("http://{}", self.admin()))),
            // After what the machine has: its own kubectl is as good.
            (
                "PATH",
                format!("\"$PATH\":{}", quoted(&format!("{}:{}", programs.display(), command.display()))),
            ),
        ];
        values.into_iter().map(|(name, value)| format!("export {name}={value}\n")).collect()
    }

    fn environment_file(&self) -> PathBuf {
        self.cluster.api().folder().join("env")
    }

    /// Writes the exports where another shell can read them.
    pub(super) fn write_environment(&self) {
        let lines = format!("{}{}\n", self.exports(), self.account());
        std::fs::write(self.environment_file(), lines).expect("write the exports");
    }
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
