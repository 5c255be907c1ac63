#include "transport/verbs/doctor.h"

#include "base/format.h"
#include "transport/verbs/pci.h"
#include "transport/verbs/port.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace hp {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNvidia = "0x10de";
constexpr const char* kDisplayClass = "0x03";  // the PCI class of GPUs

std::string ReadWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

std::string NumaOf(const std::string& device) {
  const std::string node = ReadWord(device + "/numa_node");
  return node.empty() || node == "-1" ? "NUMA node unknown" : "NUMA node " + node;
}

int MtuBytes(ibv_mtu mtu) { return 128 << mtu; }

/// Looks at one host, step by step, and keeps what it found.
class Examination {
 public:
  Examination(Verbs* verbs, const VerbsSettings& settings, std::string address, std::string sys_root)
      : verbs_(verbs), settings_(settings), address_(std::move(address)), sys_root_(std::move(sys_root)) {}

  std::vector<Finding> Run();

 private:
  void Good(const std::string& what) { findings_.push_back({true, what}); }
  void Bad(const std::string& what, const std::string& advice) { findings_.push_back({false, what, advice}); }

  // Each device, and what belongs to it.
  void ExamineDevices();
  void ExamineDevice(ibv_device* device);
  void ExaminePort(const std::string& name, ibv_context* context, uint8_t port);
  void ExamineGids(const std::string& label, const std::vector<GidEntry>& gids);
  void ExamineDmaBuf(const std::string& name, ibv_context* context);
  // The host.
  void ExamineChoice();
  void ExamineConnectionManager();
  void ExamineLockedMemory();
  void ExaminePeermem();
  void ExamineGpus();

  Verbs* const verbs_;
  const VerbsSettings& settings_;
  const std::string address_, sys_root_;
  std::vector<std::string> names_;  // of the devices
  std::vector<Finding> findings_;
};

std::vector<Finding> Examination::Run() {
  if (const Status loaded = verbs_->Loaded(); !loaded.ok()) {
    Bad(loaded.message(), "until then kind AUTO talks TCP, and kind VERBS does not start");
    return std::move(findings_);
  }
  ExamineDevices();
  if (!names_.empty()) ExamineChoice();
  ExamineConnectionManager();
  ExamineLockedMemory();
  ExaminePeermem();
  ExamineGpus();
  return std::move(findings_);
}

void Examination::ExamineDevices() {
  const DeviceList devices(verbs_);
  if (devices.begin() == devices.end()) {
    Bad("no RDMA device",
        "is an adapter there (lspci), is its driver loaded (ibv_devices)? Software RDMA: rdma link add rxe0 type rxe "
        "netdev eth0");
  }
  for (ibv_device* device : devices) ExamineDevice(device);
}

void Examination::ExamineDevice(ibv_device* device) {
  const std::string name = verbs_->GetDeviceName(device);
  names_.push_back(name);
  const ContextHandle context(verbs_->OpenDevice(device), {verbs_});
  if (!context) {
    return Bad(name + " can't be opened: " + std::strerror(errno), "may this user open /dev/infiniband/uverbs*?");
  }
  ibv_device_attr attributes = {};
  if (const int error = verbs_->QueryDevice(context.get(), &attributes)) {
    return Bad(name + " can't be queried: " + std::strerror(error), "look into dmesg");
  }
  Good(Format("%s: firmware %s, %s", name.c_str(), attributes.fw_ver[0] != '\0' ? attributes.fw_ver : "unknown",
              NumaOf(sys_root_ + "/class/infiniband/" + name + "/device").c_str()));
  for (uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) ExaminePort(name, context.get(), port);
  ExamineDmaBuf(name, context.get());
}

void Examination::ExaminePort(const std::string& name, ibv_context* context, uint8_t port) {
  const std::string label = Format("%s:%d", name.c_str(), port);
  ibv_port_attr attributes = {};
  if (const int error = verbs_->QueryPort(context, port, &attributes)) {
    return Bad(label + " can't be queried: " + std::strerror(error), "look into dmesg");
  }
  const bool ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  const std::string fault = PortFault(attributes);
  const std::string kind = ethernet ? "Ethernet (RoCE)" : "InfiniBand";
  if (fault.empty()) {
    Good(Format("%s: active, %s, MTU %d, messages up to %u MiB", label.c_str(), kind.c_str(),
                MtuBytes(attributes.active_mtu), attributes.max_msg_sz >> 20));
  } else {
    Bad(label + " is " + fault + ", " + kind, "not usable as it is");
  }
  if (ethernet && attributes.active_mtu < IBV_MTU_4096) {
    Bad(Format("%s: MTU %d", label.c_str(), MtuBytes(attributes.active_mtu)),
        "on a network with jumbo frames `ip link set dev NETDEV mtu 9000` gives 4096, and less CPU per byte");
  }
  ExamineGids(label, ReadGids(verbs_, context, port, attributes.gid_tbl_len));
}

void Examination::ExamineGids(const std::string& label, const std::vector<GidEntry>& gids) {
  const StatusOr<GidEntry> chosen = ChooseGid(gids, settings_, address_);
  if (!chosen.ok()) return Bad(label + ": " + chosen.status().message(), "give its network interface an address");
  const std::string used =
      Format("%s: GID %u, %s, of %zu", label.c_str(), chosen->index, GidText(chosen->gid).c_str(), gids.size());
  if (chosen->link_local() && chosen->roce_version != 0) {
    Bad(used + ", is link-local", "give its network interface an address, so that routers and peers find it");
  } else {
    Good(used);
  }
}

/// An adapter that knows dma-buf complains of the descriptor, another one of the call. Source: NCCL,
/// ncclIbDmaBufSupport.
void Examination::ExamineDmaBuf(const std::string& name, ibv_context* context) {
  const PdHandle pd(verbs_->AllocPd(context), {verbs_});
  if (!pd) return Bad(name + ": no protection domain: " + std::strerror(errno), "look into dmesg");
  errno = 0;
  const MrHandle mr(verbs_->RegDmabufMr(pd.get(), 0, 0, 0, -1, 0), {verbs_});
  const bool known = errno != EOPNOTSUPP && errno != EPROTONOSUPPORT;
  Good(name + (known ? ": takes dma-buf" : ": does not take dma-buf (Linux 5.12 or later and its driver must)"));
}

void Examination::ExamineChoice() {
  const StatusOr<OpenPort> port = OpenBestPort(verbs_, settings_, address_);
  if (!port.ok()) return Bad(port.status().message(), "until then kind AUTO talks TCP, and kind VERBS does not start");
  Good(Format("this host uses %s:%d", port->device.c_str(), port->port));
}

void Examination::ExamineConnectionManager() {
  const CmChannelHandle channel(verbs_->CmCreateEventChannel(), {verbs_});
  if (channel) return Good("librdmacm is ready");
  Good(Format("librdmacm can't be used (%s): `setup: RDMACM` needs it (librdmacm1, modprobe rdma_ucm)",
              std::strerror(errno)));
}

void Examination::ExamineLockedMemory() {
  rlimit limit = {};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return Good("locked memory: no limit");
  Bad(Format("locked memory: at most %llu MiB", static_cast<unsigned long long>(limit.rlim_cur >> 20)),
      "a node registers its pool: `ulimit -l unlimited`, for all logins \"* - memlock unlimited\" in "
      "/etc/security/limits.d, for a service LimitMEMLOCK=infinity");
}

void Examination::ExaminePeermem() {
  std::error_code error;
  const bool loaded = fs::exists(sys_root_ + "/module/nvidia_peermem", error);
  Good(loaded ? "nvidia-peermem is loaded" : "nvidia-peermem is not loaded (needed only where dma-buf is not taken)");
}

void Examination::ExamineGpus() {
  std::error_code error;
  for (fs::directory_iterator at(sys_root_ + "/bus/pci/devices", error), end; !error && at != end;
       at.increment(error)) {
    const std::string path = at->path().string();
    if (ReadWord(path + "/vendor") != kNvidia || !ReadWord(path + "/class").starts_with(kDisplayClass)) continue;
    std::string line = "GPU " + at->path().filename().string() + ": " + NumaOf(path);
    const std::string gpu = fs::canonical(path, error).string();
    for (const std::string& name : names_) {
      const auto hca = fs::canonical(sys_root_ + "/class/infiniband/" + name + "/device", error);
      line += Format(", %s from %s", PciDistanceName(DistanceOf(gpu, error ? "" : hca.string())), name.c_str());
    }
    error.clear();
    Good(line);
  }
}

}  // namespace

std::vector<Finding> ExamineRdma(const VerbsSettings& settings, const std::string& address, const std::string& sys_root,
                                 Verbs* verbs) {
  return Examination(verbs != nullptr ? verbs : RealVerbs(), settings, address, sys_root).Run();
}

}  // namespace hp
