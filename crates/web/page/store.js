// The files of the job in the private file system of the origin, which the browser may evict: the
// files for the server, the sealed key, and a record of how far the job is.

const FOLDER = "job";

/** Their folder. */
export async function folder() {
  const root = await navigator.storage.getDirectory();
  return root.getDirectoryHandle(FOLDER, { create: true });
}

/** One of them, or nothing. */
export async function stored(name) {
  try {
    return await (await (await folder()).getFileHandle(name)).getFile();
  } catch (error) {
    if (error.name === "NotFoundError") return undefined;
    throw error;
  }
}

/** How far the job is, if there is one. */
export async function readRecord() {
  const file = await stored("record.json");
  try {
    return file && JSON.parse(await file.text());
  } catch {
    return undefined;
  }
}

/** Removes all of them. */
export async function forget() {
  const root = await navigator.storage.getDirectory();
  await root.removeEntry(FOLDER, { recursive: true });
}
