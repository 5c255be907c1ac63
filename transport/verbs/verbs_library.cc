#include "transport/verbs/verbs_library.h"

#include <dlfcn.h>

#include <string>

namespace hp {
namespace {

/// One shared library and what it lacked so far.
class Library {
 public:
  explicit Library(const char* file) : file_(file), handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) fault_ = dlerror();
  }

  /// Sets `function` to the library's default version of `name`, or to null.
  template <typename Function>
  Library& Optional(const char* name, Function* function) {
    if (handle_ != nullptr) *function = reinterpret_cast<Function>(dlsym(handle_, name));
    return *this;
  }
  template <typename Function>
  Library& Needed(const char* name, Function* function) {
    Optional(name, function);
    if (*function == nullptr && fault_.empty()) fault_ = file_ + " has no " + name;
    return *this;
  }
  Status status() const {
    if (fault_.empty()) return OkStatus();
    return FailedPrecondition("no RDMA on this host: %s (Debian: install libibverbs1, librdmacm1, ibverbs-providers)",
                              fault_.c_str());
  }

 private:
  const std::string file_;
  void* const handle_;
  std::string fault_;
};

}  // namespace

StatusOr<IbverbsLibrary> IbverbsLibrary::Load(const char* file) {
  IbverbsLibrary found;
  const Status status = Library(file)
                            .Needed("ibv_get_device_list", &found.get_device_list)
                            .Needed("ibv_free_device_list", &found.free_device_list)
                            .Needed("ibv_get_device_name", &found.get_device_name)
                            .Needed("ibv_open_device", &found.open_device)
                            .Needed("ibv_close_device", &found.close_device)
                            .Needed("ibv_query_device", &found.query_device)
                            .Needed("ibv_query_port", &found.query_port)
                            .Needed("_ibv_query_gid_ex", &found.query_gid_ex)
                            .Needed("ibv_get_async_event", &found.get_async_event)
                            .Needed("ibv_ack_async_event", &found.ack_async_event)
                            .Needed("ibv_alloc_pd", &found.alloc_pd)
                            .Needed("ibv_dealloc_pd", &found.dealloc_pd)
                            .Needed("ibv_reg_mr_iova2", &found.reg_mr_iova2)
                            .Optional("ibv_reg_dmabuf_mr", &found.reg_dmabuf_mr)
                            .Needed("ibv_dereg_mr", &found.dereg_mr)
                            .Needed("ibv_create_comp_channel", &found.create_comp_channel)
                            .Needed("ibv_destroy_comp_channel", &found.destroy_comp_channel)
                            .Needed("ibv_create_cq", &found.create_cq)
                            .Needed("ibv_destroy_cq", &found.destroy_cq)
                            .Needed("ibv_get_cq_event", &found.get_cq_event)
                            .Needed("ibv_ack_cq_events", &found.ack_cq_events)
                            .Needed("ibv_create_srq", &found.create_srq)
                            .Needed("ibv_destroy_srq", &found.destroy_srq)
                            .Needed("ibv_create_qp", &found.create_qp)
                            .Needed("ibv_modify_qp", &found.modify_qp)
                            .Needed("ibv_destroy_qp", &found.destroy_qp)
                            .status();
  HP_RETURN_IF_ERROR(status);
  return found;
}

StatusOr<RdmacmLibrary> RdmacmLibrary::Load(const char* file) {
  RdmacmLibrary found;
  const Status status = Library(file)
                            .Needed("rdma_create_event_channel", &found.create_event_channel)
                            .Needed("rdma_destroy_event_channel", &found.destroy_event_channel)
                            .Needed("rdma_get_cm_event", &found.get_cm_event)
                            .Needed("rdma_ack_cm_event", &found.ack_cm_event)
                            .Needed("rdma_create_id", &found.create_id)
                            .Needed("rdma_destroy_id", &found.destroy_id)
                            .Needed("rdma_bind_addr", &found.bind_addr)
                            .Needed("rdma_listen", &found.listen)
                            .Needed("rdma_get_src_port", &found.get_src_port)
                            .Needed("rdma_resolve_addr", &found.resolve_addr)
                            .Needed("rdma_resolve_route", &found.resolve_route)
                            .Needed("rdma_init_qp_attr", &found.init_qp_attr)
                            .Needed("rdma_connect", &found.connect)
                            .Needed("rdma_accept", &found.accept)
                            .Needed("rdma_establish", &found.establish)
                            .Needed("rdma_reject", &found.reject)
                            .status();
  HP_RETURN_IF_ERROR(status);
  return found;
}

}  // namespace hp
