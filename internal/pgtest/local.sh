# Holds one server of this machine until stdin ends. $1 is the server's own directory, $2 the
# directory of the programs. stdin ends when the process at its other end closes it or dies.
# Then this script stops the server and removes its directory. Answers go to stdout, one line
# each. "ended N" reports that the server of the Nth start has ended; it may come before "start
# 0".
dir=$1 bin=$2 run=0
trap '' HUP INT QUIT TERM PIPE
stop() {
    [ -s "$dir/pid" ] || return 0
    kill "-$1" "$(cat "$dir/pid")" 2>/dev/null
    wait
    rm -f "$dir/pid"
}
while read -r word signal; do
    case $word in
    follow)
        # $signal is the port of the primary. $bin may hold links to some of the programs only.
        "$(dirname "$(readlink -f "$bin/postgres")")/pg_basebackup" -D "$dir/data" -h 127.0.0.1 -p "$signal" -U postgres -R -c fast --no-sync \
            >>"$dir/log" 2>&1 </dev/null
        echo "follow $?"
        ;;
    init)
        "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --no-locale --no-sync --no-instructions \
            >>"$dir/log" 2>&1 </dev/null &&
            if [ -n "$signal" ]; then cp -R "$dir/data" "$dir/$signal" >>"$dir/log" 2>&1; fi
        echo "init $?"
        ;;
    copy)
        # A copy takes a tenth of the time of initdb. $signal is the data that an init has kept.
        cp -R "$signal" "$dir/data" >>"$dir/log" 2>&1
        echo "copy $?"
        ;;
    start)
        run=$((run + 1))
        {
            "$bin/postgres" -D "$dir/data" -c "config_file=$dir/conf" >>"$dir/log" 2>&1 </dev/null &
            echo $! >"$dir/pid.new"
            mv "$dir/pid.new" "$dir/pid"
            wait $!
            echo "ended $run"
        } &
        # The next command may be a stop, which needs the process id.
        while [ ! -s "$dir/pid" ]; do sleep 0.01; done
        echo "start 0"
        ;;
    stop)
        stop "$signal"
        echo "stop 0"
        ;;
    esac
done 2>>"$dir/log"
stop QUIT
rm -rf "$dir"
