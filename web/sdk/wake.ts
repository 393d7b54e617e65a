type NetworkInformation = EventTarget;

/**
 * Calls `listener` when the network or the page may have come back to life: online again, another network, a tab that
 * was asleep. Returns the function that stops it. Outside a page nobody tells.
 */
export function onWake(listener: () => void): () => void {
  if (typeof document === "undefined") return () => {};
  const connection = (navigator as Navigator & { connection?: NetworkInformation }).connection;
  const shown = () => document.visibilityState === "visible" && listener();
  addEventListener("online", listener);
  addEventListener("pageshow", listener);
  document.addEventListener("visibilitychange", shown);
  connection?.addEventListener("change", listener);
  return () => {
    removeEventListener("online", listener);
    removeEventListener("pageshow", listener);
    document.removeEventListener("visibilitychange", shown);
    connection?.removeEventListener("change", listener);
  };
}
