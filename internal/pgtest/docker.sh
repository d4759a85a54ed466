# Holds one server in a container until stdin ends. $1 is the container's name, $2 its log; the
# other arguments go to "docker create". stdin ends when the process at its other end closes it
# or dies. Then this script removes the container with its data. Answers go to stdout, one line
# each.
name=$1 log=$2
shift 2
trap '' HUP INT QUIT TERM PIPE
while read -r word signal; do
    case $word in
    init)
        docker create --name "$name" "$@" >>"$log" 2>&1 </dev/null
        echo "init $?"
        ;;
    start)
        docker start "$name" >>"$log" 2>&1 </dev/null
        echo "start $?"
        ;;
    stop)
        docker kill --signal "$signal" "$name" >>"$log" 2>&1 </dev/null &&
            docker wait "$name" >>"$log" 2>&1 </dev/null
        echo "stop $?"
        ;;
    esac
done
docker rm --force --volumes "$name" >/dev/null 2>&1 </dev/null
rm -f "$log"
