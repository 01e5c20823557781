for c in compile check fmt explain graph serve status doctor completion try overhead "rollout"; do
 for d in fuzz rev3; do (cd /tmp/r3; PYTHONPATH=/work/$d COLUMNS=200 timeout 60 /work/main/.venv/bin/python -m admc $c --help > help.$d.$c.txt 2>&1); done
 diff -u help.fuzz.$c.txt help.rev3.$c.txt
done
for d in fuzz rev3; do PYTHONPATH=/work/$d COLUMNS=200 timeout 60 /work/main/.venv/bin/python -m admc --help > help.$d.txt 2>&1; done; diff -u help.fuzz.txt help.rev3.txt
