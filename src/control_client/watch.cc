#include "control_client/watch.h"

#include "control_client/show_status.h"
#include "control_client/watch_lines.h"
#include <langinfo.h>
#include <ncurses.h>
#include <unistd.h>

#include <clocale>
#include <cmath>
#include <cstring>
#include <ctime>
#include <string>

namespace hp {
namespace {

constexpr int kRefreshMs = 1000;

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
  void Line(const std::string& text, attr_t attributes) {
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

attr_t AttributesOf(WatchLine::Look look) {
  return look == WatchLine::kBold      ? A_BOLD
         : look == WatchLine::kReverse ? A_REVERSE
         : look == WatchLine::kDim     ? A_DIM
                                       : A_NORMAL;
}

void Draw(Screen* screen, const JobStatus& status, const WatchedCurve& loss, const WatchedCurve& speed) {
  screen->Begin();
  for (const WatchLine& line :
       WatchLines(status, std::time(nullptr), loss, speed, static_cast<size_t>(COLS), screen->utf8())) {
    screen->Line(line.text, AttributesOf(line.look));
  }
  Screen::Show();
}

}  // namespace

Status WatchJob(JobClient* client) {
  if (isatty(STDOUT_FILENO) == 0 || isatty(STDIN_FILENO) == 0)
    return InvalidArgument("watch needs a terminal; status prints the same once");
  StatusOr<JobStatus> status = client->AskStatus();
  HP_RETURN_IF_ERROR(status.status());
  Screen screen;
  WatchedCurve loss, speed;
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
