// ---- Parallel loop: threads draw task numbers from one shared counter. ---------------------------
// What a task computes depends on its number alone, so results are the same for any thread count.
template <typename Body>
struct TaskQueue {
  const Body& body;  // Status body(int64_t task)
  int64_t num_tasks;
  int64_t next = 0;
  int64_t status = kOk;

  static void drain(void* self) {
    TaskQueue& queue = *static_cast<TaskQueue*>(self);
    for (;;) {
      const int64_t task = __atomic_fetch_add(&queue.next, 1, __ATOMIC_RELAXED);
      if (task >= queue.num_tasks) return;
      const int64_t status = queue.body(task);
      if (status != kOk) __atomic_store_n(&queue.status, status, __ATOMIC_RELAXED);
    }
  }
};

template <typename Body>
int64_t for_each_task(const AttentionArgs& args, int64_t num_tasks, const Body& body) {
  TaskQueue<Body> queue{body, num_tasks};
  const int64_t threads = num_tasks < args.max_threads ? num_tasks : args.max_threads;
  if (threads > 1 && args.parallel != nullptr) {
    args.parallel(&TaskQueue<Body>::drain, &queue, static_cast<unsigned>(threads), 0);
  } else {
    TaskQueue<Body>::drain(&queue);
  }
  return queue.status;
}
