// SPDX-License-Identifier: MIT
// Links with what pkg-config prints for nearcpu-ffi; NEARCPU_STATIC=1: with the archives.
use std::process::Command;

fn main() {
    let is_static = std::env::var("NEARCPU_STATIC").is_ok_and(|v| v == "1");
    let kind = if is_static { "static" } else { "dylib" };
    let output = Command::new("pkg-config")
        .args(["--libs", "nearcpu-ffi", "nearcpu"])
        .output()
        .expect("pkg-config");
    let flags = String::from_utf8(output.stdout).expect("UTF-8");

    assert!(output.status.success(), "pkg-config knows no nearcpu-ffi");
    println!("cargo:rerun-if-env-changed=NEARCPU_STATIC");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    for flag in flags.split_whitespace() {
        if let Some(dir) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={dir}");
        } else if let Some(name) = flag.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={kind}={name}");
        }
    }
}
