# SPDX-FileCopyrightText: 2026 The infinipot_ros authors
# SPDX-License-Identifier: Apache-2.0
#
# Puts what scripts/setup made around this shell (bash or zsh): ROS 2, the messages, the Python packages.
#
#     source scripts/env.sh
#     INFINIPOT_DISTRO=kilted source scripts/env.sh      after scripts/setup --distro kilted
#
# The source tree comes first on PYTHONPATH, so an edit of a Python file needs no build.

if [ -n "${ZSH_VERSION:-}" ]; then
    _infinipot_shell=zsh
    eval '_infinipot_root=${(%):-%x}'
else
    _infinipot_shell=bash
    _infinipot_root=${BASH_SOURCE[0]}
fi
_infinipot_root=$(cd "$(dirname "$_infinipot_root")/.." && pwd)
_infinipot_suffix=
if [ "${INFINIPOT_DISTRO:-jazzy}" != jazzy ]; then _infinipot_suffix=-$INFINIPOT_DISTRO; fi
_infinipot_venv=$_infinipot_root/.venv$_infinipot_suffix
_infinipot_install=$_infinipot_root/install$_infinipot_suffix

_infinipot_enter() {
    if [ ! -f "$_infinipot_venv/infinipot.ready" ]; then
        echo "infinipot_ros is not set up here: run '$_infinipot_root/scripts/setup' first" >&2
        return 1
    fi
    # shellcheck source=/dev/null
    . "$_infinipot_venv/bin/activate"
    if [ "$(cat "$_infinipot_venv/infinipot.ready")" = system ]; then
        # shellcheck source=/dev/null
        . "$_infinipot_install/setup.$_infinipot_shell"
    else
        _infinipot_enter_wheels
    fi
    case ":${PYTHONPATH:-}:" in
        *":$_infinipot_root:"*) ;;
        *) export PYTHONPATH="$_infinipot_root${PYTHONPATH:+:$PYTHONPATH}" ;;
    esac
}

# By hand: colcon's own set-up files do not work in a folder whose name has a space.
_infinipot_enter_wheels() {
    export INFINIPOT_ROS=wheels ROS_DISTRO="${INFINIPOT_DISTRO:-jazzy}" ROS_VERSION=2 ROS_PYTHON_VERSION=3
    # The wheels start Python a second time to set LD_LIBRARY_PATH, unless told that it is set.
    export _ROS_WHEELS_BOOTSTRAP_COMPLETE=1
    _infinipot_install=$_infinipot_install/infinipot_ros
    export AMENT_PREFIX_PATH="$_infinipot_install:$_infinipot_venv"
    PYTHONPATH=$(find "$_infinipot_install/lib" -maxdepth 2 -name site-packages)
    export PYTHONPATH
    case ":$PATH:" in
        *":$_infinipot_install/bin:"*) ;;
        *) export PATH="$_infinipot_install/bin:$PATH" ;;
    esac
    case ":${LD_LIBRARY_PATH:-}:" in
        *":$_infinipot_venv/lib:"*) ;;
        *)
            _infinipot_libraries=$_infinipot_install/lib:$_infinipot_venv/lib
            while IFS= read -r _infinipot_folder; do
                _infinipot_libraries=$_infinipot_libraries:$_infinipot_folder
            done < <(find "$_infinipot_venv/lib" -maxdepth 3 -type d -name 'ros_*.libs')
            export LD_LIBRARY_PATH="$_infinipot_libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
            ;;
    esac
}

# The set-up files of ROS 2 read variables that are not set.
case $- in
    *u*) set +u; _infinipot_enter; _infinipot_status=$?; set -u ;;
    *) _infinipot_enter; _infinipot_status=$? ;;
esac
unset -f _infinipot_enter _infinipot_enter_wheels
unset _infinipot_root _infinipot_shell _infinipot_suffix _infinipot_venv _infinipot_install
unset _infinipot_folder _infinipot_libraries
# Leaves the status behind without a variable.
if [ "$_infinipot_status" -eq 0 ]; then unset _infinipot_status; else unset _infinipot_status; return 1; fi
