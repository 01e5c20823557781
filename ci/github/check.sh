#!/usr/bin/env bash
# Checks each program of a change: is its committed plan up to date, what changes, do its tests pass.
# Reads BASE, PROGRAMS and ACCEPT (a line each), RUNNER_TEMP, GITHUB_OUTPUT and GITHUB_STEP_SUMMARY.
# Ends with the worst exit code of admc: 1 and 3 before 4, and 4 before all others.
set -uo pipefail

admc="${ADMC_COMMAND:-$RUNNER_TEMP/admc/bin/admc}"
worst=0
# A folder of its own: a job may use the action twice, and a difference that is left from before is not this one's.
folder=$(mktemp -d "$RUNNER_TEMP/admc-differences.XXXXXX") || exit 1
printf 'folder=%s\n' "$folder" >> "$GITHUB_OUTPUT" || exit 1

rank() {
  case $1 in
    70) echo 5 ;; 1) echo 4 ;; 3) echo 3 ;; 4) echo 2 ;; 0) echo 0 ;; *) echo 1 ;;
  esac
}

# Keeps the worst exit code, and goes on: one run shows all findings.
run() {
  "$@"
  local code=$?
  if [ "$(rank "$code")" -gt "$(rank "$worst")" ]; then worst=$code; fi
  return "$code"
}

# A runner takes commands from the log, and what admc shows here has names and lines of the change.
quoted() {
  local end
  end="admc-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
  printf '::stop-commands::%s\n' "$end"
  "$@"
  local code=$?
  printf '\n::%s::\n' "$end"
  return "$code"
}

# The lines of ACCEPT that are about a program: `GATE=REASON` is about each, `PROGRAM:GATE=REASON` about one.
accepted() {
  accept=()
  local line
  while IFS= read -r line; do
    line=${line%$'\r'}
    case $line in
      '') ;;
      "$1":*) accept+=("--accept=${line#"$1":}") ;;
      *) case ${line%%=*} in *:*) ;; *) accept+=("--accept=$line") ;; esac ;;
    esac
  done <<< "$ACCEPT"
}

# GitHub takes a summary of 1 MiB for each step.
programs=$(grep -c . <<< "$PROGRAMS")
room=$((1000000 / (programs > 0 ? programs : 1)))
if [ "$room" -lt 4000 ]; then room=4000; fi
links="${GITHUB_SERVER_URL:-https://github.com}/${GITHUB_REPOSITORY:-}/blob"

number=0
while IFS= read -r program; do
  program=${program%$'\r'}
  if [ -z "$program" ]; then continue; fi
  number=$((number + 1))
  difference="$folder/$number.json"
  printf '::group::%s\n' "$program"
  run "$admc" compile --check --format github -- "$program"
  accepted "$program"
  compared=("$admc" diff ${accept[@]+"${accept[@]}"} -o "$difference")
  # HEAD is the commit that is tested, so that links carry it.
  run quoted "${compared[@]}" --format json -- "$BASE" "HEAD:$program"
  if [ -s "$difference" ]; then
    quoted "$admc" diff --format text -- "$difference"
    "$admc" diff --format markdown --links "$links" --max-bytes "$room" -- "$difference" >> "$GITHUB_STEP_SUMMARY"
  fi
  if [ -f "${program%.adm}.test.adm" ]; then
    run "$admc" test --format junit -- "$program" > "$folder/$number.tests.xml" || run quoted "$admc" test -- "$program"
  fi
  echo '::endgroup::'
  # Annotations outside of the group: a runner shows the first ten of a step, and the worst come first.
  if [ -s "$difference" ]; then
    "$admc" diff --format github -- "$difference"
  else
    # Why there is none. It fails again, and as an annotation: at the file that is checked out.
    "${compared[@]}" --format github -- "$BASE" "$program"
  fi
done <<< "$PROGRAMS"

if [ "$number" -eq 0 ]; then
  echo '::error::no program is named: give `programs`, a path on each line'
  exit 1
fi
exit "$worst"
