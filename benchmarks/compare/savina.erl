%% savina.erl: the Savina benchmarks in Erlang, with the messages of benchmarks/savina; idle
%% processes, and requests to a process of another node.
%%
%% peer_erlang starts it. Erlang as its makers recommend it: modules compiled by erlc, run by the
%% emulator's JIT, with as many schedulers as the row has threads and all other flags as they come.
-module(savina).
-export([main/1, echo_bytes/0]).

main([Name, Number]) ->
    case Name of
        "idle" -> {Bytes, _} = idle(list_to_integer(Number)), print(Bytes);
        "spawn" -> {_, Rate} = idle(list_to_integer(Number)), print(Rate);
        "call" -> call(server(fun echo_bytes/0), list_to_integer(Number), 0);
        "remote_call" -> remote_call(list_to_integer(Number), #{}, 0);
        "remote_call_apart" -> remote_call(list_to_integer(Number), second_cpu(), 0);
        "remote_call_paused" -> remote_call(list_to_integer(Number), second_cpu(), 1);
        _ -> measure(list_to_atom(Name), list_to_float(Number))
    end,
    halt(0).

print(Value) -> io:format("~.9g nan nan nan~n", [float(Value)]).

now_s() -> erlang:monotonic_time(nanosecond) / 1.0e9.

%% Plays once to warm up, and then again and again for so many seconds. A game has a process of its
%% own, which ends with it.
measure(Name, Seconds) ->
    Seconds > 0 andalso game(Name),
    Start = now_s(),
    Games = repeat(Name, Start + Seconds, 0),
    print(units(Name) * Games / (now_s() - Start)).

repeat(Name, Until, Games) ->
    game(Name),
    case now_s() < Until of
        true -> repeat(Name, Until, Games + 1);
        false -> Games + 1
    end.

game(Name) ->
    {_, Monitor} = spawn_monitor(fun() -> play(Name) end),
    receive {'DOWN', Monitor, process, _, Reason} -> normal = Reason end.

units(pingpong) -> 2 * 40000;
units(count) -> 1000000;
units(fanin) -> 1000000;
units(forkjoin) -> 60 * 10000;
units(forkjoin_create) -> 40000;
units(ring) -> 100000;
units(chameneos) -> 200000;
units(big) -> 2 * 120 * 20000;
units(fib) -> 150049;
units(dictionary) -> 20 * 10000;
units(banking) -> 50000;
units(nqueens) -> 14200.

times(0, _) -> ok;
times(N, Do) -> Do(), times(N - 1, Do).

%% The same small generator as in savina.h.
random(State) ->
    Next = (State * 1664525 + 1013904223) band 16#ffffffff,
    {Next bsr 8, Next}.

%% ---- One message under way

play(pingpong) ->
    Me = self(),
    Right = spawn(fun ponger/0),
    spawn(fun() ->
        Right ! {ping, self()},
        pinger(Right, 40000 - 1),
        Me ! done
    end),
    receive done -> Right ! quit end;

%% ---- One way

play(count) ->
    Me = self(),
    Sink = spawn(fun() -> count(0, 1000000), Me ! done end),
    spawn(fun() -> produce(Sink, 1000000) end),
    receive done -> ok end;
play(fanin) ->
    Me = self(),
    Sink = spawn(fun() -> count(0, 1000000), Me ! done end),
    times(8, fun() -> spawn(fun() -> produce(Sink, 125000) end) end),
    receive done -> ok end;

%% ---- One to many

play(forkjoin) ->
    Me = self(),
    spawn(fun() ->
        Workers = [spawn(fun() -> work(0, 10000), Me ! done end) || _ <- lists:seq(1, 60)],
        times(10000, fun() -> tell_all(Workers) end)
    end),
    times(60, fun() -> receive done -> ok end end);
play(forkjoin_create) ->
    Me = self(),
    spawn(fun() ->
        times(40000, fun() ->
            spawn(fun() -> work(0, 1), Me ! done end) ! work
        end)
    end),
    times(40000, fun() -> receive done -> ok end end);

%% ---- A ring

play(ring) ->
    Me = self(),
    First = spawn(fun() -> receive {join, Next} -> member(Next, Me) end end),
    Last = lists:foldl(fun(_, Next) -> spawn(fun() -> member(Next, Me) end) end, First,
                       lists:seq(2, 100)),
    First ! {join, Last},
    First ! 100000,
    receive done -> First ! quit end;

%% ---- Many to one

play(chameneos) ->
    Me = self(),
    Mall = spawn(fun() -> mall(none, 200000, 0, 0), Me ! done end),
    [spawn(fun() -> creature_begin(Mall, I rem 3) end) || I <- lists:seq(0, 99)],
    receive done -> ok end;

%% ---- Many to many

play(big) ->
    Me = self(),
    All = [spawn(fun() -> receive {go, T} -> big_begin(T, Seed, Me) end end)
           || Seed <- lists:seq(1, 120)],
    Table = list_to_tuple(All),
    [One ! {go, Table} || One <- All],
    times(120, fun() -> receive done -> ok end end),
    [One ! quit || One <- All],
    ok;

%% ---- A tree

play(fib) ->
    Me = self(),
    spawn(fun() -> fib(25, Me) end),
    receive {answer, 75025} -> ok end;

%% ---- Concurrent Dictionary

play(dictionary) ->
    Me = self(),
    Server = spawn(fun() -> dictionary(#{}) end),
    [spawn(fun() -> asker(Server, 10000, Seed), Me ! done end) || Seed <- lists:seq(1, 20)],
    times(20, fun() -> receive done -> ok end end),
    Server ! quit;

%% ---- Banking

play(banking) ->
    Accounts = list_to_tuple([spawn(fun() -> account(1000.0) end) || _ <- lists:seq(1, 1000)]),
    Me = self(),
    spawn(fun() -> teller(Accounts, 50000, 123456), times(50000, fun() ->
              receive done -> ok end end), Me ! done end),
    receive done -> ok end,
    [One ! quit || One <- tuple_to_list(Accounts)],
    ok;

%% ---- N-Queens

play(nqueens) ->
    Me = self(),
    Master = spawn(fun() ->
        Boss = self(),
        Workers = list_to_tuple([spawn(fun() -> queens_worker(Boss) end)
                                 || _ <- lists:seq(1, 20)]),
        Solutions = queens_master(Workers, 0, 0, 0, 0),
        [Worker ! quit || Worker <- tuple_to_list(Workers)],
        Me ! {solutions, Solutions}
    end),
    Master ! {work, 0, []},
    receive {solutions, 14200} -> ok end.

%% ---- What the processes of the games do

ponger() ->
    receive
        {ping, From} -> From ! pong, ponger();
        quit -> ok
    end.

pinger(Right, Left) ->
    receive
        pong when Left > 0 -> Right ! {ping, self()}, pinger(Right, Left - 1);
        pong -> ok
    end.

count(Wanted, Wanted) -> ok;
count(Sum, Wanted) -> receive {add, N} -> count(Sum + N, Wanted) end.

produce(_, 0) -> ok;
produce(To, N) -> To ! {add, 1}, produce(To, N - 1).

work(N, N) -> ok;
work(N, Wanted) ->
    receive
        work ->
            Value = math:sin(37.2),
            put(last, Value * Value + N),
            work(N + 1, Wanted)
    end.

tell_all([]) -> ok;
tell_all([To | Rest]) -> To ! work, tell_all(Rest).

member(Next, Me) ->
    receive
        quit -> Next ! quit;
        0 -> Me ! done, member(Next, Me);
        N -> Next ! N - 1, member(Next, Me)
    end.

mall(_, 0, 100, Met) -> 400000 = Met, ok;
mall(Waiting, Left, Faded, Met) ->
    receive
        {meet, _, Visitor} when Left =:= 0 -> Visitor ! quit, mall(none, 0, Faded, Met);
        {meet, Colour, Visitor} when Waiting =:= none ->
            mall({Colour, Visitor}, Left, Faded, Met);
        {meet, Colour, Visitor} ->
            {_, First} = Waiting,
            First ! {partner, Colour, Visitor},
            mall(none, Left - 1, Faded, Met);
        {count, N} -> mall(Waiting, Left, Faded + 1, Met + N)
    end.

creature_begin(Mall, Colour) ->
    Mall ! {meet, Colour, self()},
    creature(Mall, Colour, 0).

creature(Mall, Colour, Met) ->
    receive
        {partner, Other, From} ->
            Mine = case Colour of Other -> Colour; _ -> 3 - Colour - Other end,
            From ! {change, Mine},
            Mall ! {meet, Mine, self()},
            creature(Mall, Mine, Met + 1);
        {change, Mine} ->
            Mall ! {meet, Mine, self()},
            creature(Mall, Mine, Met + 1);
        quit -> Mall ! {count, Met}
    end.

big_begin(All, Seed, Me) ->
    big(All, big_ping(All, Seed), 20000 - 1, Me).

big_ping(All, Random) ->
    {Value, Next} = random(Random),
    element(Value rem 120 + 1, All) ! {ping, self()},
    Next.

big(All, Random, Left, Me) ->
    receive
        {ping, From} -> From ! pong, big(All, Random, Left, Me);
        pong when Left > 0 -> big(All, big_ping(All, Random), Left - 1, Me);
        pong -> Me ! done, big(All, Random, Left, Me);
        quit -> ok
    end.

fib(N, Parent) when N =< 2 -> Parent ! {answer, 1};
fib(N, Parent) ->
    Me = self(),
    spawn(fun() -> fib(N - 1, Me) end),
    spawn(fun() -> fib(N - 2, Me) end),
    receive {answer, One} -> receive {answer, Two} -> Parent ! {answer, One + Two} end end.

dictionary(Entries) ->
    receive
        {read, Key, From} -> From ! {value, maps:get(Key, Entries, 0)}, dictionary(Entries);
        {write, Key, Value, From} ->
            From ! {value, Value},
            dictionary(Entries#{Key => Value});
        quit -> ok
    end.

asker(_, 0, _) -> ok;
asker(Server, Left, Random) ->
    {Value, Second} = random(Random),
    {Chance, Next} = random(Second),
    Key = 1 + Value rem 512,
    case Chance rem 100 < 10 of
        true -> Server ! {write, Key, Key * 2, self()};
        false -> Server ! {read, Key, self()}
    end,
    receive {value, _} -> asker(Server, Left - 1, Next) end.

%% An account that pays waits for the receiver's word, and looks at nothing else meanwhile.
account(Balance) ->
    receive
        {pay, Amount, To, Teller} ->
            To ! {take, Amount, self()},
            receive taken -> Teller ! done end,
            account(Balance - Amount);
        {take, Amount, From} -> From ! taken, account(Balance + Amount);
        quit -> ok
    end.

teller(_, 0, _) -> ok;
teller(Accounts, N, Random) ->
    {One, Second} = random(Random),
    {Two, Third} = random(Second),
    {Amount, Next} = random(Third),
    Payer = One rem 800,
    Receiver = Payer + 1 + Two rem (1000 - Payer - 1),
    element(Payer + 1, Accounts) !
        {pay, float(Amount rem 1000), element(Receiver + 1, Accounts), self()},
    teller(Accounts, N - 1, Next).

%% A board is the rows of its queens, the last one first.
queens_master(Workers, Next, Sent, Done, Solutions) ->
    receive
        {work, Depth, Board} ->
            element(Next + 1, Workers) ! {work, Depth, Board},
            queens_master(Workers, (Next + 1) rem 20, Sent + 1, Done, Solutions);
        solution -> queens_master(Workers, Next, Sent, Done, Solutions + 1);
        done when Done + 1 =:= Sent -> Solutions;
        done -> queens_master(Workers, Next, Sent, Done + 1, Solutions)
    end.

queens_worker(Master) ->
    receive
        {work, Depth, Board} when Depth >= 4 ->
            solve(Master, Depth, Board),
            Master ! done,
            queens_worker(Master);
        {work, Depth, Board} ->
            [Master ! {work, Depth + 1, [Row | Board]}
             || Row <- lists:seq(0, 11), is_safe(Row, 1, Board)],
            Master ! done,
            queens_worker(Master);
        quit -> ok
    end.

solve(Master, 12, _) -> Master ! solution;
solve(Master, Depth, Board) -> solve_rows(Master, Depth, Board, 0).

solve_rows(_, _, _, 12) -> ok;
solve_rows(Master, Depth, Board, Row) ->
    case is_safe(Row, 1, Board) of
        true -> solve(Master, Depth + 1, [Row | Board]);
        false -> ok
    end,
    solve_rows(Master, Depth, Board, Row + 1).

is_safe(_, _, []) -> true;
is_safe(Row, Distance, [Other | Rest]) ->
    Other =/= Row andalso Other =/= Row - Distance andalso Other =/= Row + Distance andalso
        is_safe(Row, Distance + 1, Rest).

%% ---- Memory and requests

server(Do) -> spawn(Do).

echo() ->
    receive {ping, From, N} -> From ! {pong, N + 1}, echo() end.

echo_bytes() ->
    receive {ping, From, Bytes} -> From ! {pong, Bytes}, echo_bytes() end.

resident_bytes() ->
    {ok, Text} = file:read_file("/proc/self/statm"),
    [_, Resident | _] = binary:split(Text, <<" ">>, [global]),
    binary_to_integer(Resident) * 4096.

idle(Count) ->
    resident_bytes(),
    Before = resident_bytes(),
    Start = now_s(),
    All = [spawn(fun echo/0) || _ <- lists:seq(1, Count)],
    Made = now_s() - Start,
    lists:foreach(fun(One) -> One ! {ping, self(), 1}, receive {pong, _} -> ok end end, All),
    {(resident_bytes() - Before) / Count, Count / Made}.

%% 64 bytes there and back: short enough to be copied into each message. A pause, in milliseconds,
%% goes before each call.
call(Server, Count, Pause) ->
    Bytes = binary:copy(<<7>>, 64),
    One = fun() -> Pause =:= 0 orelse timer:sleep(Pause), one_call(Server, Bytes) end,
    times(Count div 5 + 100, One),
    Samples = lists:sort([One() || _ <- lists:seq(1, Count)]),
    Table = list_to_tuple(Samples),
    At = fun(Share) -> float(element(1 + trunc(Share * (Count - 1)), Table)) / 1000 end,
    io:format("~.9g ~.9g ~.9g ~.9g~n", [At(0.5), At(0.5), At(0.99), At(0.999)]).

one_call(Server, Bytes) ->
    Start = erlang:monotonic_time(nanosecond),
    Server ! {ping, self(), Bytes},
    receive {pong, Bytes} -> ok end,
    erlang:monotonic_time(nanosecond) - Start.

%% A second node of this machine, over the distribution.
remote_call(Count, Where, Pause) ->
    Path = filename:dirname(code:which(?MODULE)),
    How = #{name => peer:random_name(), host => "127.0.0.1", longnames => true,
            args => ["+S", "1", "-pa", Path]},
    {ok, _, Node} = peer:start_link(maps:merge(How, Where)),
    call(spawn(Node, savina, echo_bytes, []), Count, Pause).

%% The first node is on CPU 0 then.
second_cpu() ->
    #{exec => {os:find_executable("taskset"), ["-c", "1", os:find_executable("erl")]}}.
