// peer_plasma.cpp: objects in Plasma, the store of Apache Arrow until version 11, as its users have
// it in C++:
//
//     peer_plasma put|putdrop|get|view <bytes> <clients>
//
// Starts a store (a process of its own, as always there) and the clients, processes with a
// connection each. They do the same at once until an agreed moment, on written data. put: create,
// copy with six threads as Arrow's own put does, seal, release; small ones by CreateAndSeal, made
// for them. Objects are deleted while the clock stands still. putdrop: and delete, while it runs.
// get: the object, copied out into warm pages. view: its first and its last byte.
// Prints one round: operations a second, of all clients together.
#include <arrow/io/memory.h>
#include <plasma/client.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

constexpr int CLIENTS_MAX = 8;
constexpr size_t SMALL = 65536, BATCH = 256;
constexpr int COPY_THREADS = 6;
constexpr int64_t ROUND_NS = 100000000, STORE = int64_t{2} << 30;

struct agreement {
    std::atomic<int> ready{0};
    std::atomic<int64_t> start_ns{0}, stop_ns{0};
    double rates[CLIENTS_MAX] = {};
};

[[noreturn]] void die(const std::string &what)
{
    std::fprintf(stderr, "peer_plasma: %s\n", what.c_str());
    std::_Exit(EXIT_FAILURE);
}

void must(const arrow::Status &status)
{
    if (!status.ok())
        die(status.ToString());
}

int64_t now_ns()
{
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void use(const void *memory, unsigned sum)
{
    __asm__ volatile("" : : "r"(memory), "r"(sum) : "memory");
}

class client
{
  public:
    client(const std::string &socket, size_t size) : from_(size, 0), to_(size, 1)
    {
        must(plasma_.Connect(socket));
        for (size_t i = 0; i < size; i++)
            from_[i] = static_cast<char>(i * 31 + 7);
        lent_ = put();
    }

    // Does it some times; returns the time that counts.
    int64_t batch(const std::string &what, size_t count)
    {
        std::vector<plasma::ObjectID> made;
        int64_t start = now_ns();
        for (size_t i = 0; i < count; i++) {
            if (what == "put")
                made.push_back(put());
            else if (what == "putdrop")
                must(plasma_.Delete(put()));
            else
                look(what == "get");
        }
        int64_t passed = now_ns() - start;
        if (!made.empty())
            must(plasma_.Delete(made));
        return passed;
    }

  private:
    plasma::ObjectID put()
    {
        plasma::ObjectID id;
        std::memset(id.mutable_data(), 0, static_cast<size_t>(plasma::ObjectID::size()));
        pid_t maker = getpid();
        std::memcpy(id.mutable_data(), &++made_, sizeof made_);
        std::memcpy(id.mutable_data() + sizeof made_, &maker, sizeof maker);
        if (from_.size() < SMALL) {
            must(plasma_.CreateAndSeal(id, from_, ""));
            return id;
        }
        std::shared_ptr<arrow::Buffer> buffer;
        must(plasma_.Create(id, static_cast<int64_t>(from_.size()), nullptr, 0, &buffer));
        arrow::io::FixedSizeBufferWriter writer(buffer);
        writer.set_memcopy_threads(COPY_THREADS);
        must(writer.Write(from_.data(), static_cast<int64_t>(from_.size())));
        must(plasma_.Seal(id));
        must(plasma_.Release(id));
        return id;
    }

    void look(bool copy)
    {
        std::vector<plasma::ObjectBuffer> found; // Released when it goes.
        must(plasma_.Get({lent_}, -1, &found));
        const uint8_t *bytes = found[0].data->data();
        if (copy)
            std::memcpy(&to_[0], bytes, to_.size());
        use(to_.data(), unsigned{bytes[0]} + bytes[to_.size() - 1]);
    }

    plasma::PlasmaClient plasma_;
    std::string from_, to_; // Written, so that their pages are there.
    plasma::ObjectID lent_;
    uint64_t made_ = 0;
};

void be_client(const std::string &socket, const std::string &what, size_t size, agreement *all,
               int number)
{
    client self(socket, size);
    size_t count = size < SMALL || what == "view" ? BATCH : 1;
    self.batch(what, count); // Brings the pages.
    all->ready++;
    while (all->start_ns == 0)
        std::this_thread::yield();
    while (now_ns() < all->start_ns)
        continue;
    double done = 0, ns = 0;
    do {
        ns += static_cast<double>(self.batch(what, count));
        done += static_cast<double>(count);
    } while (now_ns() < all->stop_ns);
    all->rates[number] = done / ns * 1e9;
}

// A process that does not outlive this one.
pid_t fork_tied()
{
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        die("no process");
    if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent))
        std::_Exit(EXIT_FAILURE);
    return child;
}

pid_t start_store(const std::string &socket)
{
    pid_t store = fork_tied();
    if (store != 0) {
        // Clients that come before it listens try again, and say so each time.
        while (access(socket.c_str(), F_OK) != 0 && waitpid(store, nullptr, WNOHANG) == 0)
            usleep(1000);
        usleep(10000);
        return store;
    }
    std::string bytes = std::to_string(STORE);
    if (!std::freopen("/dev/null", "w", stderr))
        std::_Exit(EXIT_FAILURE);
    execl(PLASMA_STORE, PLASMA_STORE, "-m", bytes.c_str(), "-s", socket.c_str(), nullptr);
    std::_Exit(EXIT_FAILURE);
}

double measure(const std::string &socket, const std::string &what, size_t size, int count)
{
    void *memory =
        mmap(nullptr, sizeof(agreement), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        die("no memory");
    auto *all = new (memory) agreement;
    for (int i = 0; i < count; i++) {
        if (fork_tied() != 0)
            continue;
        be_client(socket, what, size, all, i);
        std::_Exit(EXIT_SUCCESS);
    }
    int ended = 0, status = 0;
    while (all->ready < count && (ended = waitpid(-1, &status, WNOHANG)) == 0)
        usleep(1000);
    if (ended != 0)
        die("a client or the store has ended early");
    all->stop_ns = now_ns() + 1000000 + ROUND_NS;
    all->start_ns = all->stop_ns - ROUND_NS;
    double sum = 0;
    for (int i = 0; i < count; i++)
        if (waitpid(-1, &status, 0) < 0 || status != 0)
            die("a client or the store has failed");
    for (int i = 0; i < count; i++)
        sum += all->rates[i];
    return sum;
}

} // namespace

int main(int argc, char **argv)
{
    char folder[] = "/tmp/peer_plasma.XXXXXX";
    int count = argc == 4 ? std::atoi(argv[3]) : 0;
    size_t size = argc == 4 ? std::strtoull(argv[2], nullptr, 10) : 0;
    if (count < 1 || count > CLIENTS_MAX || size == 0)
        die("usage: peer_plasma put|putdrop|get|view <bytes> <clients>");
    if (!mkdtemp(folder))
        die("no folder");
    std::string socket = std::string(folder) + "/store";
    pid_t store = start_store(socket);
    double rate = measure(socket, argv[1], size, count);
    kill(store, SIGTERM);
    waitpid(store, nullptr, 0);
    unlink(socket.c_str());
    rmdir(folder);
    std::printf("%.9g nan nan nan\n", rate);
    return EXIT_SUCCESS;
}
