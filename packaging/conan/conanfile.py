# SPDX-License-Identifier: MIT
"""Recipe of Conan 2 for the tree that it is in: `conan create packaging/conan`.

A recipe for a release in an index of packages takes the tarball in source() instead of
export_sources(), and the version from conandata.yml.
"""
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir, save
from conan.tools.gnu import PkgConfigDeps

required_conan_version = ">=2.0.9"

ROOT = os.path.join("..", "..")
TOOLS = ("jansson", "libelf", "capstone", "zlib")  # what the command links


class NearcpuConan(ConanFile):
    name = "nearcpu"
    description = "Per-CPU structures on Linux restartable sequences"
    license = "MIT"
    topics = ("rseq", "per-cpu", "concurrency", "malloc", "rcu")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    # No option fPIC: both forms are made of the same objects, which are position independent.
    options = {"shared": [True, False], "tools": [True, False]}
    default_options = {"shared": False, "tools": False}

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, ROOT, "CMakeLists.txt"))
        self.version = self.version or re.search(r"^ *VERSION ([0-9.]+)$", text, re.M).group(1)

    def export_sources(self):
        for what in ("CMakeLists.txt", "LICENSE", "README.md", "ARCHITECTURE.md", "bench/*",
                     "cmake/*", "docs/*", "examples/*", "include/*", "man/*", "packaging/*",
                     "src/*", "tools/*"):
            copy(self, what, os.path.join(self.recipe_folder, ROOT), self.export_sources_folder,
                 excludes="packaging/conan/*")  # where the tests of the package are built

    def configure(self):
        self.settings.rm_safe("compiler.libcxx")
        self.settings.rm_safe("compiler.cppstd")

    def layout(self):
        cmake_layout(self, src_folder=".")

    def requirements(self):
        if self.options.tools:
            self.requires("jansson/[>=2.13 <3]")
            self.requires("elfutils/[>=0.180]")
            self.requires("capstone/[>=4 <6]")
            self.requires("zlib/[>=1.2.11 <2]")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration(
                f"{self.ref}: for Linux alone, not {self.settings.os}: it uses its rseq(2)")
        if self.settings.compiler not in ("gcc", "clang"):
            raise ConanInvalidConfiguration(
                f"{self.ref}: gcc or clang, not {self.settings.compiler}: it is GNU C")

    def generate(self):
        tc = CMakeToolchain(self)
        tc.cache_variables.update({
            "NEAR_SHARED": bool(self.options.shared), "NEAR_STATIC": not self.options.shared,
            "NEAR_TOOLS": bool(self.options.tools), "NEAR_BENCH": False, "NEAR_TESTS": False,
            "CMAKE_INSTALL_LIBDIR": "lib"})
        # These have bin/ for libexec/, where a file has the name of our folder.
        tc.blocks.remove("output_dirs")
        if self.options.tools:
            tc.cache_variables.update({f"NEAR_WITH_{name.upper()}": "ON" for name in TOOLS})
        tc.generate()
        CMakeDeps(self).generate()
        PkgConfigDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        lib, share = (os.path.join(self.package_folder, d) for d in ("lib", "share"))
        # What a program exports so that static copies of the library share their state.
        flags = re.search("^export_flags=(.*)$",
                          load(self, os.path.join(lib, "pkgconfig", "nearcpu.pc")), re.M).group(1)
        save(self, os.path.join(share, "nearcpu", "export_flags"), flags)
        for made_by_conan_or_not_for_it in (
                os.path.join(lib, "cmake"), os.path.join(lib, "pkgconfig"),
                os.path.join(share, "doc"), os.path.join(share, "man"),
                os.path.join(share, "gdb")):
            rmdir(self, made_by_conan_or_not_for_it)

    def _add(self, target, library, requires=(), system_libs=("pthread",)):
        """Component with the name of the file; targets as CMake's package of the library has."""
        c = self.cpp_info.components[library]
        c.set_property("cmake_target_name", f"nearcpu::{target}")
        if not self.options.shared:
            c.set_property("cmake_target_aliases", [f"nearcpu::{target}_static"])
        c.set_property("pkg_config_name", library)
        c.libs = [library]
        c.requires = list(requires)
        c.system_libs = list(system_libs)
        c.resdirs = ["share"]
        return c

    def package_info(self):
        # What requires the package and no component gets the core, not another malloc with it,
        # from generators that know of this. For CMakeDeps the sum of all components must not have
        # the name of the core.
        self.cpp_info.default_components = ["nearcpu"]
        self.cpp_info.set_property("cmake_file_name", "nearcpu")
        self.cpp_info.set_property("cmake_target_name", "nearcpu::all_components")
        core = [] if self.options.shared else ["nearcpu"]  # the shared ones contain it
        self._add("nearcpu", "nearcpu")
        self._add("ffi", "nearcpu-ffi", ["nearcpu"])
        self._add("torture", "nearcpu-torture")
        if self.settings.get_safe("arch") not in ("x86", "armv7", "armv7hf", "armv6", "riscv32"):
            self._add("malloc", "nearcpu-malloc", core, ["pthread", "dl"])
            self._add("alloc", "nearcpu-alloc", core, ["pthread", "dl"])
            atomic = self._add("atomic", "nearcpu-atomic", core)
            if not self.options.shared:
                atomic.exelinkflags = ["-Wl,--export-dynamic-symbol=near__atomic_locks"]
        export = self.cpp_info.components["nearcpu-export"]
        export.set_property("cmake_target_name", "nearcpu::export")
        export.set_property("pkg_config_name", "nearcpu-export")
        export.exelinkflags = load(self, os.path.join(
            self.package_folder, "share", "nearcpu", "export_flags")).split()
        export.libdirs = []
