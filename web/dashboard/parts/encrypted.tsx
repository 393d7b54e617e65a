/** The lock of a room, call or track whose media the server cannot read. */
export function Encrypted({ title = "End-to-end encrypted: the server cannot read its media." }: { title?: string }) {
  return (
    <svg class="lock" viewBox="0 0 24 24" role="img" aria-label="End-to-end encrypted">
      <title>{title}</title>
      <path d="M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3" fill="none" stroke="currentColor" stroke-width="2" />
    </svg>
  );
}
