# Keeps one server in a container, for whoever holds the other end of stdin: $1 is the container's name, $2 a log, and the rest
# what "docker create" needs. When stdin ends, because its holder was done or was killed, the container and its data are
# removed. Answers go to stdout, one line each.
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
