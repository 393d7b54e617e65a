/** What everybody in a room must be able to see: it is being recorded. */
export function RecordingDot() {
  return (
    <span class="badge bad recording" role="status">
      Recording
    </span>
  );
}
