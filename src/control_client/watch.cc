#include "control_client/watch.h"

#include "base/format.h"

#include "control_client/show_status.h"
#include <langinfo.h>
#include <ncurses.h>
#include <unistd.h>

#include <clocale>
#include <cmath>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

namespace hp {
namespace {

constexpr int kRefreshMs = 1000;
constexpr size_t kKept = 1024;  // values of a curve: wider than terminals are
constexpr int kLabelColumns = 24;

/// The terminal in full-screen mode, while it exists.
class Screen {
 public:
  Screen() {
    std::setlocale(LC_CTYPE, "");
    utf8_ = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    initscr();
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    timeout(kRefreshMs);
  }
  ~Screen() { endwin(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool utf8() const { return utf8_; }
  void Begin() {
    erase();
    line_ = 0;
  }
  /// The next line, cut off at the terminal's width; lines that it has no room for are left out.
  void Line(const std::string& text, attr_t attributes = A_NORMAL) {
    if (line_ >= LINES) return;
    attron(attributes);
    mvaddstr(line_++, 0, CutColumns(text, static_cast<size_t>(COLS)).c_str());
    attroff(attributes);
  }
  /// Shows what was written since Begin.
  static void Show() { refresh(); }
  /// Waits for a key, for a moment. @return ERR: none.
  static int Key() { return getch(); }

 private:
  bool utf8_ = false;
  int line_ = 0;
};

/// The latest values of a number.
class Curve {
 public:
  void Add(double value) {
    values_.push_back(value);
    if (values_.size() > kKept) values_.erase(values_.begin());
  }
  std::string Line(const char* name, const char* format, bool utf8) const {
    const double now = values_.empty() ? NAN : values_.back();
    const std::string value = std::isfinite(now) ? Format(format, now) : "-";
    const std::string label = Format("%-10s %-*s ", name, kLabelColumns - 12, value.c_str());
    return label + Sparkline(values_, static_cast<size_t>(std::max(COLS - kLabelColumns, 1)), utf8);
  }

 private:
  std::vector<double> values_;  // oldest first
};

void Draw(Screen* screen, const JobStatus& status, const Curve& loss, const Curve& speed) {
  const StatusLines lines = LinesOf(status, std::time(nullptr));
  screen->Begin();
  screen->Line(lines.job, A_BOLD);
  screen->Line(lines.learning);
  screen->Line("");
  screen->Line(loss.Line("loss", "%.4g", screen->utf8()));
  screen->Line(speed.Line("images/s", "%.1f", screen->utf8()));
  screen->Line("");
  screen->Line(lines.head, A_REVERSE);
  for (const std::string& node : lines.nodes) screen->Line(node);
  if (!lines.warnings.empty()) screen->Line("");
  for (const std::string& warning : lines.warnings) screen->Line(warning);
  screen->Line("");
  screen->Line("q: quit", A_DIM);
  Screen::Show();
}

}  // namespace

Status WatchJob(JobClient* client) {
  if (isatty(STDOUT_FILENO) == 0 || isatty(STDIN_FILENO) == 0)
    return InvalidArgument("watch needs a terminal; status prints the same once");
  StatusOr<JobStatus> status = client->AskStatus();
  HP_RETURN_IF_ERROR(status.status());
  Screen screen;
  Curve loss, speed;
  for (;;) {
    loss.Add(status->learning().has_loss() ? status->learning().loss() : NAN);
    speed.Add(status->images_per_s());
    Draw(&screen, *status, loss, speed);
    const int key = Screen::Key();
    if (key == 'q' || key == 'Q') return OkStatus();
    status = client->AskStatus();
    HP_RETURN_IF_ERROR(status.status());
  }
}

}  // namespace hp
