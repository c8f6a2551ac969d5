use std::fs;
use std::os::unix::fs::symlink;

use super::super::trail::Trail;

#[test]
fn the_trail_has_the_folder_of_every_link_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("mount/..v1")).unwrap();
    fs::write(root.join("mount/..v1/routes.yaml"), "").unwrap();
    symlink("..v1", root.join("mount/..data")).unwrap();
    symlink("..data/routes.yaml", root.join("mount/routes.yaml")).unwrap();
    symlink(root.join("mount"), root.join("link")).unwrap();

    let trail = Trail::of(&root.join("link/../link/routes.yaml"));
    let watched: Vec<_> = ["", "mount", "mount/..v1"].map(|name| root.join(name)).into();
    assert!(
        watched.iter().all(|f| trail.folders.iter().any(|g| g.components().eq(f.components()))),
        "{trail:?}"
    );
    assert_eq!(trail.folders.len(), watched.len());
    for entry in ["link", "mount/routes.yaml", "mount/..data", "mount/..v1/routes.yaml"] {
        assert!(trail.entries.contains(&root.join(entry)), "{entry} in {trail:?}");
    }
}

#[test]
fn the_trail_of_a_missing_file_ends_where_it_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let trail = Trail::of(&root.join("not/yet/routes.yaml"));
    assert!(trail.folders.contains(&root) && trail.entries.contains(&root.join("not")), "{trail:?}");
    assert_eq!(trail.folders.len(), 1);
}

#[test]
fn links_in_a_circle_end() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    symlink("b", root.join("a")).unwrap();
    symlink("a", root.join("b")).unwrap();
    assert!(Trail::of(&root.join("a")).entries.contains(&root.join("b")));
}
