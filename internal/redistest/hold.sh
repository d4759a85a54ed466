# Holds one server of this machine until stdin ends. $1 is the server's own directory, $2 its
# program, and $3 an option of the program if it is not empty. stdin ends when the process at its other end closes it or dies. Then this script kills
# the server and removes its directory. Package supervisor describes the answers.
dir=$1 program=$2 option=$3 run=0
trap '' HUP INT QUIT TERM PIPE
signal() { kill "-$1" "$(cat "$dir/pid")" 2>/dev/null; }
stop() {
    [ -s "$dir/pid" ] || return 0
    signal "$1"
    signal CONT
    wait
    rm -f "$dir/pid"
}
while read -r word name; do
    case $word in
    start)
        run=$((run + 1))
        {
            # The server must heed the signals that this script ignores.
            "$program" "$dir/conf" $option >>"$dir/log" 2>&1 </dev/null &
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
        stop "$name"
        echo "stop 0"
        ;;
    signal)
        signal "$name"
        echo "signal $?"
        ;;
    esac
done 2>>"$dir/log"
stop KILL
rm -rf "$dir"
