"""Applies the rules and tells what breaks them.
    run.py source ROOT
    run.py format ROOT
    run.py headers ROOT
    run.py library ROOT BUILD SHARED STATIC
"""

import subprocess
import sys

import api_reference
import binary_rules
import docs_rules
import performance_page
import source_rules

SOURCE = [performance_page.measured_page, source_rules.downward_includes, source_rules.opencl_behind_one_door,
          source_rules.names_in_one_table,
          source_rules.short_files, source_rules.long_sources, source_rules.nothing_unfinished, source_rules.opening_comments,
          source_rules.complete_ops, source_rules.implementations_in_one_place, source_rules.preludes_macros_stay,
          docs_rules.ops_page, docs_rules.links, docs_rules.index,
          api_reference.api_pages]
FORMATTER, SKIPPED = "14.", 77  # other versions of clang-format leave other lines


def main(what, root, *rest):
    if what == "source":
        checks = [(rule.__name__, rule(root)) for rule in SOURCE]
    elif what == "format":
        version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True).stdout
        if f"version {FORMATTER}" not in version:
            print(f"formatted: not asked for, by {version.strip()}: expected version {FORMATTER}")
            return SKIPPED
        checks = [("formatted", source_rules.formatted(root))]
    elif what == "headers":
        checks = [("headers_alone", binary_rules.headers_alone(root)), ("own_macros", binary_rules.own_macros(root))]
    else:
        build, shared, static = rest
        checks = [("exported_names", binary_rules.exported_names(root, shared)),
                  ("shared_object_name", binary_rules.shared_object_name(shared)),
                  ("no_build_path", binary_rules.no_build_path(shared, root, build)
                   + binary_rules.no_build_path(static, root, build))]
    for name, bad in checks:
        print(f"{name}: {len(bad)} violations")
        for line in bad:
            print(f"  {line}")
    return any(bad for _, bad in checks)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
