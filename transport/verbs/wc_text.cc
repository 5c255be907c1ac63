#include "transport/verbs/wc_text.h"

#include "base/format.h"

#include <cstring>

namespace hp {

const char* WcStatusText(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "success";
    case IBV_WC_LOC_LEN_ERR:
      return "local length error: more arrived than the receive buffer holds";
    case IBV_WC_LOC_QP_OP_ERR:
      return "local queue pair operation error";
    case IBV_WC_LOC_PROT_ERR:
      return "local protection error: our memory is not registered";
    case IBV_WC_WR_FLUSH_ERR:
      return "flushed: the queue pair was in error already";
    case IBV_WC_BAD_RESP_ERR:
      return "bad response from the peer's adapter";
    case IBV_WC_LOC_ACCESS_ERR:
      return "local access error";
    case IBV_WC_REM_INV_REQ_ERR:
      return "remote invalid request error";
    case IBV_WC_REM_ACCESS_ERR:
      return "remote access error: the peer's adapter refused a write (beyond its place, or an invalid key)";
    case IBV_WC_REM_OP_ERR:
      return "remote operation error";
    case IBV_WC_RETRY_EXC_ERR:
      return "transport retry counter exceeded: the peer's adapter does not answer";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "receiver-not-ready retry counter exceeded: the peer posts no receive requests";
    case IBV_WC_REM_ABORT_ERR:
      return "aborted by the peer's adapter";
    case IBV_WC_FATAL_ERR:
      return "fatal error";
    case IBV_WC_RESP_TIMEOUT_ERR:
      return "response timeout";
    default:
      return "error";
  }
}

const char* AsyncEventText(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return "completion queue overrun";
    case IBV_EVENT_QP_FATAL:
      return "queue pair failed";
    case IBV_EVENT_QP_REQ_ERR:
      return "queue pair: the peer sent an invalid request";
    case IBV_EVENT_QP_ACCESS_ERR:
      return "queue pair: the peer accessed memory without permission";
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return "queue pair is in the error state";
    case IBV_EVENT_SRQ_ERR:
      return "shared receive queue failed";
    case IBV_EVENT_DEVICE_FATAL:
      return "device failed";
    case IBV_EVENT_PORT_ERR:
      return "port went down";
    case IBV_EVENT_PORT_ACTIVE:
      return "port is up";
    case IBV_EVENT_GID_CHANGE:
      return "GID table changed";
    default:
      return "event";
  }
}

std::string CmEventText(rdma_cm_event_type type, int status) {
  // Reasons of InfiniBand's connection manager (IBA 1.4, table 105).
  constexpr int kNobodyListens = 8, kConsumer = 28;
  const std::string error = status < 0 ? Format(" (%s)", std::strerror(-status)) : "";
  switch (type) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      return "the address can't be resolved" + error;
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return "there is no route" + error;
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return "connecting failed" + error;
    case RDMA_CM_EVENT_UNREACHABLE:
      return "the other side does not answer" + error;
    case RDMA_CM_EVENT_REJECTED:
      if (status == kNobodyListens) return "the other side refused: nobody listens there";
      if (status == kConsumer) return "the other side refused the request";
      return Format("the other side refused: reason %d", status);
    case RDMA_CM_EVENT_DISCONNECTED:
      return "the other side disconnected it";
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return "the device was removed";
    case RDMA_CM_EVENT_ADDR_CHANGE:
      return "the network interface's address moved";
    default:
      return Format("unexpected event %d", static_cast<int>(type)) + error;
  }
}

}  // namespace hp
