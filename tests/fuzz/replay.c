// replay.c: runs a fuzz target over every file of a corpus, so that what a fuzzer once found stays
// found where no fuzzer is to be had. Usage: replay_<target> <directory>...
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        return 1;
    }
    long size = ftell(file);
    rewind(file);
    // Exactly as large as the file, so that a sanitizer sees any byte that is read beyond it.
    uint8_t *data = (uint8_t *)malloc(size > 0 ? (size_t)size : 1);
    if (!data || size < 0 || fread(data, 1, (size_t)size, file) != (size_t)size) {
        perror(path);
        return 1;
    }
    fclose(file);
    (void)LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 0;
}

static int replay_directory(const char *path, int *count)
{
    DIR *directory = opendir(path);
    if (!directory) {
        perror(path);
        return 1;
    }
    int failed = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.')
            continue;
        char name[4096];
        (void)snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        failed |= replay_file(name);
        (*count)++;
    }
    closedir(directory);
    return failed;
}

int main(int argc, char **argv)
{
    int count = 0, failed = 0;
    for (int i = 1; i < argc; i++)
        failed |= replay_directory(argv[i], &count);
    printf("%d files\n", count);
    if (count == 0)
        fprintf(stderr, "there is nothing to replay\n");
    return failed || count == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
