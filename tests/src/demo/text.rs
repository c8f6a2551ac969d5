//! What the user is given.

use std::path::PathBuf;

use super::{Demo, ID, PAGE, SANDBOX, SET};
use crate::locations;

impl Demo {
    /// The lines for people and shells, without the last one, `ready`.
    pub fn text(&self) -> String {
        let gateway = self.gateway();
        let install = locations::repository().join("tests/e2b/install");
        format!(
            "\
# A request to the sandbox {SANDBOX}:
curl -sS http://{gateway}/kruise/{ID}/{PAGE}/

# E2B's SDK in the same sandbox, through the gateway (the first time it is installed into the cache):
PYTHONPATH=\"$({install})\" python3 - <<'EOF'
{snippet}EOF

# In another terminal, first the lines below, or: . {environment}
#   kubectl get sandboxsets,sandboxes,pods
#   kubectl scale sandboxset {SET} --replicas=4
#   kubectl patch sandbox {SANDBOX} --type=merge -p '{{\"spec\":{{\"paused\":true}}}}'   # and the curl line says so
#   kubectl exec {SANDBOX} -c sandbox -- env
#   sandgate routes --admin \"$SANDGATE_ADMIN\"
{exports}",
            install = install.display(),
            snippet = self.snippet(),
            environment = self.environment_file().display(),
            exports = self.exports(),
        )
    }

    /// The E2B SDK with a sandbox that it did not create: there is no manager to ask for one yet.
    fn snippet(&self) -> String {
        let gateway = self.gateway();
        format!(
            "\
from e2b import ConnectionConfig, Sandbox
from packaging.version import Version

headers = {{\"E2b-Sandbox-Id\": \"{ID}\", \"E2b-Sandbox-Port\": \"49983\"}}
config = ConnectionConfig(sandbox_url=\"http://{gateway}\", extra_sandbox_headers=headers)
sandbox = Sandbox(
    sandbox_id=\"{ID}\", sandbox_domain=None, envd_version=Version(\"0.5.8\"), envd_access_token=None,
    traffic_access_token=None, connection_config=config,
)
sandbox.files.write(\"note.txt\", \"written through the gateway\")
print(sandbox.commands.run(\"cat note.txt\").stdout)
"
        )
    }

    /// Lines that a shell can eval. The manager's (SANDGATE_MANAGER, E2B_API_KEY, E2B_API_URL,
    /// E2B_SANDBOX_URL) belong here once it is part of the demo.
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
        std::fs::write(self.environment_file(), self.exports()).expect("write the exports");
    }
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
